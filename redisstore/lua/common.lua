-- KEYS: log, meta, days, quotas, cooldowns, answers, procs, holes
-- ARGV: identity, seen, stamp of seen, process, lease in ms, what the time should be, mode, number
local log, meta = KEYS[1], KEYS[2]
local days, quotas, cooldowns, answers = KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local procs, holes = KEYS[7], KEYS[8]
local OK, CONFLICT, REPLACED, STALE = 0, 1, 2, 3
local SECOND = 1000000
local EMPTY = '\0' -- keeps a hash there when it has nothing else
local me = ARGV[4]

local function text(n) return string.format('%.0f', n) end

local known = redis.call('HMGET', meta, 'id', 'last', 'at', 'shift', 'folded', 'touched', 'turns', 'd:' .. me)
local complete = redis.call('EXISTS', unpack(KEYS)) == #KEYS
local identity = known[1]
local last, at = tonumber(known[2] or 0), tonumber(known[3] or 0)
local shift, folded = tonumber(known[4] or 0), tonumber(known[5] or 0)

-- The time of the log never goes back, and a jump of the server's clock does not move it.
local clock = redis.call('TIME')
local now = clock[1] * SECOND + clock[2] + shift
local expected = tonumber(ARGV[6])
local shifted
if expected > 0 and expected >= at and math.abs(now - expected) > SECOND then
  shifted = expected - now
elseif at - now > SECOND / 20 then
  shifted = at - now
end
if shifted then
  shift, now = shift + shifted, now + shifted
end
now = math.max(now, at)

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

-- varint reads a number of a text from a byte on, and returns that and the byte behind it.
local function varint(value, from)
  local n, scale = 0, 1
  while true do
    local b = string.byte(value, from)
    from = from + 1
    if b < 128 then
      return n + b * scale, from
    end
    n, scale = n + (b - 128) * scale, scale * 128
  end
end

-- last_of returns the place of the last event of an entry.
local function last_of(entry)
  return place(entry[1]) + varint(entry[2][2], 1) - 1
end

-- behind returns the entries behind a place; nil if the event there is not the one that was seen.
local function behind(seen, stamp, most)
  if last < seen or last == seen and stamp ~= 0 and stamp ~= at then
    return nil
  end
  if last == seen then
    return {}
  end
  local entries = redis.call('XRANGE', log, text(seen + 1), '+', 'COUNT', most)
  local at_seen = redis.call('XREVRANGE', log, text(seen), '-', 'COUNT', 1)[1]
  if at_seen and last_of(at_seen) >= seen then
    local _, is = place(at_seen[1])
    if stamp ~= 0 and stamp ~= is then
      return nil
    end
    if last_of(at_seen) > seen then
      table.insert(entries, 1, at_seen)
    end
  end
  return entries
end
