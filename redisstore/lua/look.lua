if identity ~= ARGV[1] or not complete then
  return replaced()
end
local news = entries().behind(tonumber(ARGV[2]), tonumber(ARGV[3]), 64)
if not news then
  return renounce()
end
if shifted then
  keep()
end
if ARGV[5] ~= '0' then
  renew(me, tonumber(ARGV[5]))
  touch()
end
local told = redis.call('HGET', meta, 'span') .. ' ' .. redis.call('ZCOUNT', procs, text(now / 1000), '+inf')
return answer(OK, last, told, news)
