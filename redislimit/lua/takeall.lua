-- KEYS: the states, and the record of the operation if one is kept. ARGV: milliseconds for which that
-- is kept; then of each state its kind and five arguments. The record has an S before the answer once
-- it is settled.
local count = (#ARGV - 1) / 6
local record = KEYS[count + 1]
local done = record and redis.call('GET', record)
if done then return string.match(done, '1.*') end
local look = {w = look_w, c = look_c, l = look_l, b = look_b}
local all, states, changes = true, {}, {}
for k = 1, count do
  local i = 6 * k - 4
  local fits, state, value, ttl, joins = look[ARGV[i]](KEYS[k], i + 1)
  all, states[k], changes[k] = all and fits, state, {value, ttl, joins}
end
local answer = (all and '1 ' or '0 ') .. clock[1] .. ' ' .. clock[2] .. '\n' .. table.concat(states, '\n')
if not all then return answer end
for k = 1, count do
  local value, ttl, joins = unpack(changes[k], 1, 3)
  if value then (ARGV[6 * k - 4] == 'l' and put_l or put)(KEYS[k], value, ttl, joins) end
end
if record then redis.call('PSETEX', record, ARGV[1], answer) end
return answer
