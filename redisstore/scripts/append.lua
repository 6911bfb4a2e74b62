local log, seq, low, hash = split(ARGV[1])
local meta = redis.call('HMGET', KEYS[2], 'log', 'seq', 'low', 'hash', 'image')
local whole = meta[1] == log and redis.call('EXISTS', KEYS[2], meta[5]) == 2
local why = not whole and 'lost' or place(seq, low, hash, {meta[2], meta[3], meta[4]})
if why then
  if row and was then
    redis.call('SET', KEYS[3], was, 'KEEPTTL')
  elseif row then
    redis.call('UNLINK', KEYS[3])
  end
  return {why}
end
local rows = redis.call('XRANGE', KEYS[1], '(' .. seq .. MOST, '+', 'COUNT', ARGV[3])
local at = 0
if row then
  local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  local from = last and string.match(last[1], '^%d+') or meta[2]
  at = string.format('%.0f', tonumber(from) + tonumber(ARGV[5]))
  redis.call('XADD', KEYS[1], at .. '-' .. us, 'b', row)
  redis.call('SET', KEYS[3], log .. ':' .. at .. ':' .. string.sub('00' .. us, -9) .. ':' .. string.sub(row, 1, 4), 'KEEPTTL')
end
if KEYS[4] then
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, ARGV[2])
  end
  redis.call('PEXPIRE', meta[5], ARGV[2])
elseif not was and ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
end
return {'ok', us, at, rows}
