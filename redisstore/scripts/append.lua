local log, seq, low, hash = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local meta = redis.call('HMGET', KEYS[2], 'log', 'seq', 'low', 'hash')
local why = meta[1] ~= log and 'lost' or place(seq, low, hash, {meta[2], meta[3], meta[4]})
if why then
  if ARGV[8] and was then
    redis.call('SET', KEYS[3], was, 'KEEPTTL')
  elseif ARGV[8] then
    redis.call('UNLINK', KEYS[3])
  end
  return {why}
end
local rows = redis.call('XRANGE', KEYS[1], '(' .. seq .. MOST, '+', 'COUNT', ARGV[6])
local at = 0
if ARGV[8] then
  local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  local from = last and string.match(last[1], '^%d+') or meta[2]
  at = string.format('%.0f', tonumber(from) + tonumber(ARGV[8]))
  redis.call('XADD', KEYS[1], at .. '-' .. us, 'b', ARGV[9])
  redis.call('SET', KEYS[3], log .. ':' .. at .. ':' .. string.sub(us, -9) .. ':' .. string.sub(ARGV[9], 1, 4), 'KEEPTTL')
end
if KEYS[4] then
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, ARGV[7])
  end
  local image = redis.call('HGET', KEYS[2], 'image')
  if image then
    redis.call('PEXPIRE', image, ARGV[7])
  end
elseif not was and ARGV[7] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[7])
  redis.call('PEXPIRE', KEYS[3], ARGV[7])
end
return {'ok', us, at, rows}
