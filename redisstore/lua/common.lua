local function text(n) return string.format('%.0f', n) end

local function keep_shift()
  if shifted then
    redis.call('HSET', meta, 'shift', text(shift))
  end
end

local function renew(process, ms, only)
  if only then
    redis.call('ZADD', procs, only, text(now / 1000 + ms), process)
  else
    redis.call('ZADD', procs, text(now / 1000 + ms), process)
  end
end

-- touch puts off the end of the keys, once an hour.
local function touch()
  if now - tonumber(known[6] or 0) > 3600 * SECOND then
    redis.call('HSET', meta, 'touched', text(now))
    for _, key in ipairs(KEYS) do
      redis.call('PEXPIRE', key, 604800000)
    end
  end
end

-- renounce makes the log another one: events that somebody has seen are not there any more.
local function renounce()
  redis.call('HSET', meta, 'id', string.match(identity, '^[^.]*') .. '.' .. text(now))
  return {REPLACED, 0, text(now), 0, '', {}}
end

-- place splits the ID of an entry into its place and its time.
local function place(id)
  local seq, stamp = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(seq), tonumber(stamp)
end

-- behind returns the entries behind a place; nil if the event there is not the one that was seen.
local function behind(seen, stamp, most)
  if last < seen or last == seen and stamp ~= 0 and stamp ~= at then
    return nil
  end
  if last == seen then
    return {}
  end
  local entries = redis.call('XRANGE', log, text(seen), '+', 'COUNT', most + 1)
  if #entries > 0 then
    local seq, is = place(entries[1][1])
    if seq == seen then
      if stamp ~= 0 and stamp ~= is then
        return nil
      end
      table.remove(entries, 1)
    end
  end
  return entries
end
