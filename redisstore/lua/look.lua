if identity ~= wanted or not complete then
  return replaced()
end
local news = entries().behind(seen, stamp, 64)
if not news then
  return renounce()
end
if shifted then
  keep()
end
if lease ~= '0' then
  renew(me, tonumber(lease))
  touch()
end
local told = redis.call('HGET', meta, 'span') .. ' ' .. redis.call('ZCOUNT', procs, text(now / 1000), '+inf')
return answer(OK, last, told, news)
