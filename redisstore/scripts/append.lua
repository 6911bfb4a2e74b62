-- KEYS: log, meta, end. ARGV: the log and the place behind which to read, how many rows at most, for
-- how many milliseconds to keep the keys (0: for ever), whether that is due, and, to append, how many
-- entries, and the row. Returns status, time, the number of the last entry that was appended, and rows.
local log, seq, low, hash = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ends = redis.call('GET', KEYS[3])
local atEnd = ends == log .. ':' .. seq .. ':' .. low .. ':' .. hash
local rows, from = {}, seq
if not atEnd then
  local meta = redis.call('HMGET', KEYS[2], 'log', 'seq', 'low', 'hash')
  if meta[1] ~= log then
    return {'lost'}
  end
  local why = place(seq, low, hash, {meta[2], meta[3], meta[4]})
  if why then
    return {why}
  end
  rows = redis.call('XRANGE', KEYS[1], '(' .. seq .. MOST, '+', 'COUNT', ARGV[5])
  local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  from = last and string.match(last[1], '^%d+') or meta[2]
end
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local at = 0
if ARGV[8] then
  at = string.format('%.0f', tonumber(from) + tonumber(ARGV[8]))
  local id = at .. '-' .. string.format('%.0f', us)
  if not atEnd then
    redis.call('XADD', KEYS[1], id, 'b', ARGV[9])
  elseif not redis.call('XADD', KEYS[1], 'NOMKSTREAM', id, 'b', ARGV[9]) then
    return {'lost'}
  end
  redis.call('SET', KEYS[3], log .. ':' .. at .. ':' .. string.format('%.0f', us % 4294967296) .. ':'
    .. string.sub(ARGV[9], 1, 4), 'KEEPTTL')
end
if ARGV[6] ~= '0' and (ARGV[7] == '1' or not ends) then
  redis.call('PEXPIRE', KEYS[1], ARGV[6])
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
  redis.call('PEXPIRE', KEYS[3], ARGV[6])
  local image = redis.call('HGET', KEYS[2], 'image')
  if image then
    redis.call('PEXPIRE', image, ARGV[6])
  end
end
return {'ok', string.format('%.0f', us), at, rows}
