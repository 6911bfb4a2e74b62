-- KEYS: the state, the record of the operation. ARGV: milliseconds for which the record is kept, 0 to
-- keep none, or -1 to charge nothing; the kind; the arguments of the kind. Only a charge has a
-- record. It is looked for last: a repeat is rare.
local fits, report, charge = decide[ARGV[2]](KEYS[1], 3)
local ttl = ARGV[1]
if ttl == '-1' then
  return (fits and '1 ' or '0 ') .. report
end
if not fits then
  return ttl ~= '0' and redis.call('GET', KEYS[2]) or '0 ' .. report
end
local answer = '1 ' .. report
if charge then
  if ttl ~= '0' and not redis.call('SET', KEYS[2], answer, 'PX', ttl, 'NX') then
    return redis.call('GET', KEYS[2])
  end
  charge()
end
return answer
