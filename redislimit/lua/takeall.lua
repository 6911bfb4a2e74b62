-- KEYS: the record of the operation, and the states. ARGV: milliseconds for which the record is
-- kept, 0 to keep none, or -1 to charge nothing; then of each state its kind and five arguments. The
-- record is "H" or, once it is settled, "S", the marks of the charges, and the answer.
local done = ARGV[1] ~= '0' and redis.call('GET', KEYS[1])
if done then return string.match(done, '^%u[^\n]*\n(.*)$') end
local decide = {w = decide_w, c = decide_c, l = decide_l, b = decide_b}
local all, marks, reports = true, {}, {}
for k = 2, #KEYS do
  local i = 2 + 6 * (k - 2)
  local fits, report, mark = decide[ARGV[i]](KEYS[k], i + 1, false)
  reports[k - 1], marks[k - 1] = report, string.format('%.0f', mark)
  all = all and fits
end
local answer = (all and '1 ' or '0 ') .. table.concat(reports, '\n')
if all and ARGV[1] ~= '-1' then
  for k = 2, #KEYS do
    local i = 2 + 6 * (k - 2)
    decide[ARGV[i]](KEYS[k], i + 1, true)
  end
  if ARGV[1] ~= '0' then
    redis.call('PSETEX', KEYS[1], ARGV[1], 'H ' .. table.concat(marks, ' ') .. '\n' .. answer)
  end
end
return answer
