-- KEYS: log, meta, end; and those of the layout before, where all are to be kept anew.
-- ARGV: the place behind which to read, as the end says it, and its log, number, low part and hash; how
-- many rows at most; for how many milliseconds to keep the keys (0: for ever); and, to append, how many
-- entries, the row, what the end begins with behind it, and its number, if the place is the end.
-- Returns status, time, the number of the last entry that was appended, and rows.
--
-- The common case is that the place is the end. It returns the time, and reads no row.
local time = redis.call('TIME')
local us = time[1] .. string.sub('00000' .. time[2], -6)
local was
if ARGV[8] then
  was = redis.call('SET', KEYS[3], ARGV[10] .. string.sub(us, -9) .. ':' .. string.sub(ARGV[9], 1, 4), 'KEEPTTL', 'GET')
else
  was = redis.call('GET', KEYS[3])
end
if was == ARGV[1] and not KEYS[4] and
  (not ARGV[8] or redis.call('XADD', KEYS[1], 'NOMKSTREAM', ARGV[11] .. '-' .. us, 'b', ARGV[9])) then
  return us
end
