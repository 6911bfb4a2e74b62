-- KEYS: the state, the record of the operation. ARGV: milliseconds for which the record is kept, or
-- 0 to charge nothing; the kind; the arguments of the kind.
local done = redis.call('GET', KEYS[2])
if done then return done end
local fits, report, charge = decide[ARGV[2]](KEYS[1], 3)
if not fits then return '0 ' .. report end
local answer = '1 ' .. report
if charge and ARGV[1] ~= '0' then
  charge()
  redis.call('SET', KEYS[2], answer, 'PX', ARGV[1])
end
return answer
