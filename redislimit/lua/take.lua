-- KEYS: the state, the record of the operation. ARGV: milliseconds for which the record is kept, 0 to
-- keep none, or -1 to charge nothing; then the arguments of the limiter. Only a charge has a record.
local ttl = ARGV[1]
local kept = ttl ~= '0' and ttl ~= '-1'
if kept then
  local done = redis.call('GET', KEYS[2])
  if done then return done end
end
local fits, report = decide(KEYS[1], 2, ttl ~= '-1')
if not fits then return '0 ' .. report end
local answer = '1 ' .. report
if kept then redis.call('PSETEX', KEYS[2], ttl, answer) end
return answer
