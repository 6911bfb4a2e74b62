-- KEYS: log, meta. ARGV: the log and the place behind which to read, how many rows at most, for how
-- many milliseconds to keep the keys (0: for ever), whether that is due, and, to append, how many
-- entries, and the row.
-- Returns status, time, the number of the last entry that was appended, and rows.
local log, seq, low, hash = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local rows, base = {}, nil
if not (last and is(last, seq, low, hash)) then
  local meta = redis.call('HMGET', KEYS[2], 'log', 'seq', 'low', 'hash')
  if meta[1] ~= log then
    return {'lost'}
  end
  base = {meta[2], meta[3], meta[4]}
  local why = place(seq, low, hash, base)
  if why then
    return {why}
  end
  rows = redis.call('XRANGE', KEYS[1], '(' .. seq .. MOST, '+', 'COUNT', ARGV[5])
end
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local at = 0
if ARGV[8] then
  local from = base and base[1] or seq
  if last then
    from = string.match(last[1], '^%d+')
  end
  at = string.format('%.0f', tonumber(from) + tonumber(ARGV[8]))
  redis.call('XADD', KEYS[1], at .. '-' .. string.format('%.0f', us), 'b', ARGV[9])
end
if ARGV[6] ~= '0' and (ARGV[7] == '1' or not last) then
  redis.call('PEXPIRE', KEYS[1], ARGV[6])
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
  local image = redis.call('HGET', KEYS[2], 'image')
  if image then
    redis.call('PEXPIRE', image, ARGV[6])
  end
end
return {'ok', string.format('%.0f', us), at, rows}
