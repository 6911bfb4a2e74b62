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

  -- models calls f for each model of an entry, with its number and whether a day of it is told. It
  -- returns where the events begin.
  local function models(value, f)
    local count, size
    local _, from = varint(value, 1)
    _, from = varint(value, from + 1)
    count, from = varint(value, from)
    for i = 0, count - 1 do
      size, from = varint(value, from)
      local length = math.floor(size / 2)
      f(string.sub(value, from, from + length - 1), i, size % 2 == 1)
      from = from + length
    end
    return from
  end

  -- tell adds the models of which an entry tells the day. It returns false where the entry does
  -- more to days than to add to them.
  local function tell(entry, told)
    local value = entry[2][2]
    local _, flags = varint(value, 1)
    if string.byte(value, flags) % 2 == 1 then
      return false
    end
    models(value, function(model, _, tells) told[model] = told[model] or tells end)
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

  return {place = place, last_of = last_of, models = models, tell = tell, behind = behind}
end

