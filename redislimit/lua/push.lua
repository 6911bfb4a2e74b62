-- ARGV: of each row its name, its count, and its TTL in milliseconds. Counts have up to 19 digits,
-- which a double has not.
if redis.call('EXISTS', meta, counts, raised, ends) < 4 then
  redis.call('DEL', meta, counts, raised, ends)
  redis.call('HSET', meta, 'epoch', clock[1] .. '.' .. clock[2])
end
local longest = 0
for i = 1, #ARGV, 3 do
  local row, count, ttl = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local old = redis.call('HGET', counts, row)
  if not old or #count > #old or #count == #old and count > old then
    redis.call('HSET', counts, row, count)
    redis.call('ZADD', raised, redis.call('HINCRBY', meta, 'last', 1), row)
    redis.call('ZADD', ends, text(ms + ttl), row)
    longest = math.max(longest, ttl)
  end
end
if longest > redis.call('PTTL', meta) then
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, text(longest))
  end
end
forget(#ARGV)
return 'OK'
