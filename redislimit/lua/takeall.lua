-- KEYS: the record of the operation, and the states. ARGV: milliseconds for which the record is
-- kept, or 0 to charge nothing; then of each state its kind and five arguments. The record is "H" or,
-- once it is settled, "S", the marks of the charges, and the answer.
local done = redis.call('GET', KEYS[1])
if done then return string.match(done, '^%u[^\n]*\n(.*)$') end
local all, charges, marks, reports = true, {}, {}, {}
for k = 2, #KEYS do
  local i = 2 + 6 * (k - 2)
  local fits, mark
  fits, reports[k - 1], charges[k - 1], mark = decide[ARGV[i]](KEYS[k], i + 1)
  marks[k - 1] = text(mark)
  all = all and fits
end
local answer = (all and '1 ' or '0 ') .. table.concat(reports, '\n')
if all and ARGV[1] ~= '0' then
  for _, charge in ipairs(charges) do
    if charge then charge() end
  end
  redis.call('SET', KEYS[1], 'H ' .. table.concat(marks, ' ') .. '\n' .. answer, 'PX', ARGV[1])
end
return answer
