-- ARGV goes on with a command: 'claim'; 'days', 'cooldowns', 'found' or 'spend' with pairs of field and
-- value; or 'dead' with processes.
if identity ~= wanted or not complete then
  return replaced()
end
local what, done = ARGV[7], 0
if what == 'claim' then
  if now - tonumber(redis.call('HGET', meta, 'swept') or 0) >= 50 * SECOND then
    redis.call('HSET', meta, 'swept', date)
    done = 1
  end
elseif what == 'dead' then
  for i = 8, #ARGV do
    local ends = redis.call('ZSCORE', procs, ARGV[i])
    if ends and tonumber(ends) < now / 1000 - 3600000 then
      redis.call('ZREM', procs, ARGV[i])
      redis.call('HDEL', meta, 'd:' .. ARGV[i])
    end
  end
else
  local key = ({days = days, cooldowns = cooldowns, found = found, spend = spend})[what]
  for i = 8, #ARGV, 2 do
    if redis.call('HGET', key, ARGV[i]) == ARGV[i + 1] then
      redis.call('HDEL', key, ARGV[i])
    end
  end
end
return answer(OK, done, '', {})
