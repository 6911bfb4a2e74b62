-- A row of the log is a batch. Its ID is the number of its last entry and the time of the server in
-- microseconds; its field b begins with four bytes that hash the batch. The sum of a place is the
-- hash and the last nine digits of the time.
local MOST = '-18446744073709551615'

-- split returns the parts of a place: the log, the number, and the two halves of the sum.
local function split(text)
  return string.match(text, '^(%d+):(%d+):(%d+):(....)$')
end

-- is reports whether a row ends at a place.
local function is(row, seq, low, hash)
  local rowSeq, us = string.match(row[1], '^(%d+)-(%d+)$')
  return rowSeq == seq and string.sub('00000000' .. us, -9) == low and string.sub(row[2][2], 1, 4) == hash
end

-- place returns why a place is none to read from: 'lost' or 'trimmed'. It is nil for a place that
-- is one, or is within a row, which the reader of that row finds out. The log is that of meta.
local function place(seq, low, hash, base)
  local n, from = tonumber(seq), tonumber(base[1])
  if n < from then
    return 'trimmed'
  end
  if n == from then
    return not (low == base[2] and hash == base[3]) and 'lost' or nil
  end
  local row = redis.call('XRANGE', KEYS[1], seq .. '-0', '+', 'COUNT', 1)[1]
  if not row or string.match(row[1], '^%d+') == seq and not is(row, seq, low, hash) then
    return 'lost'
  end
  return nil
end
