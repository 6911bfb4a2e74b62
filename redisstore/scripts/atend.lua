-- KEYS: log, meta, end; and those of the layout before, where all are to be kept anew.
-- ARGV: the place behind which to read, for how many milliseconds to keep the keys (0: for ever), how many
-- rows to return at most; and, to append, the row, how many entries it has, the number of its last one
-- if the place is the end, and what the end begins with then.
-- Returns status, time, the number of the last entry that was appended, and rows.
--
-- The common case is that the place is the end. It returns the time, and reads no row; but whoever only
-- reads finds out whether the server has evicted the log, what it is or its image.
local time = redis.call('TIME')
local us = time[1] .. string.sub('00000' .. time[2], -6)
local row, was = ARGV[4], nil
if row then
  was = redis.call('SET', KEYS[3], ARGV[7] .. string.sub('00' .. us, -9) .. ':' .. string.sub(row, 1, 4), 'KEEPTTL', 'GET')
else
  was = redis.call('GET', KEYS[3])
end
if was == ARGV[1] and not KEYS[4] and
  (row and redis.call('XADD', KEYS[1], 'NOMKSTREAM', ARGV[6] .. '-' .. us, 'b', row) or
  not row and redis.call('EXISTS', KEYS[1], redis.call('HGET', KEYS[2], 'image') or KEYS[2]) == 2) then
  return us
end
