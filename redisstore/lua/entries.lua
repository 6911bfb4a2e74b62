-- entries returns functions that read the stream. They are made only where they are needed, because
-- that takes longer than most scripts.
local function entries()
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

  -- tell adds the models of which an entry tells the day. It returns false where the entry does
  -- more to days than to add to them.
  local function tell(entry, told)
    local bytes = entry[2][2]
    local models, size
    local _, from = varint(bytes, 1)
    if string.byte(bytes, from) % 2 == 1 then
      return false
    end
    _, from = varint(bytes, from + 1)
    models, from = varint(bytes, from)
    for _ = 1, models do
      size, from = varint(bytes, from)
      local length = math.floor(size / 2)
      if size % 2 == 1 then
        told[string.sub(bytes, from, from + length - 1)] = true
      end
      from = from + length
    end
    return true
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

  return {place = place, varint = varint, last_of = last_of, tell = tell, behind = behind}
end
