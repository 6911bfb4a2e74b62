-- KEYS: a state, and the record of the operation if one is kept. ARGV: milliseconds for which that
-- is kept; then the arguments of the limiter. Only a charge has a record. That it is there already is
-- known from writing it, which is one command less than to look first.
local fits, state, value, ttl, joins = look(KEYS[1], 2)
local answer = (fits and '1 ' or '0 ') .. clock[1] .. ' ' .. clock[2] .. '\n' .. state
if not KEYS[2] then
  if value then put(KEYS[1], value, ttl, joins) end
elseif not fits then
  local done = redis.call('GET', KEYS[2])
  return done and string.match(done, '1.*') or answer
elseif not redis.call('SET', KEYS[2], answer, 'PX', ARGV[1], 'NX') then
  return string.match(redis.call('GET', KEYS[2]), '1.*')
elseif value then
  put(KEYS[1], value, ttl, joins)
end
return answer
