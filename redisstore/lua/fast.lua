-- Nearly every write finds the log as its process knows it, and adds events alone. The rest of the
-- script is for all others: to set up its functions takes several times as long as this.
local number = ARGV[8]
if identity == ARGV[1] and complete and not shifted and last == tonumber(ARGV[2]) and (known[7] or '') == '' and
  (ARGV[3] == '0' or tonumber(ARGV[3]) == at) and ARGV[5] == '0' and now - tonumber(known[6] or 0) <= 3600 * SECOND and
  (not known[8] or tonumber(string.match(known[8], '^%d+')) < tonumber(number)) then
  local plain = true
  for i = 14, #ARGV, 6 do
    if ARGV[i] ~= '' then
      plain = false
      break
    end
  end
  if plain then
    local stamp, first, count = string.format('%.0f', now), last + 1, (#ARGV - 8) / 6
    for i = 9, #ARGV, 6 do
      local day = ARGV[i + 2]
      last = last + 1
      redis.call('XADD', log, string.format('%.0f-', last) .. stamp, 'e', ARGV[i] .. day)
      if day ~= '' then
        redis.call('HSET', days, ARGV[i + 1], day)
      end
    end
    if count > 0 then
      redis.call('HSET', meta, 'last', last, 'at', stamp, 'd:' .. me,
        string.format('%s %.0f %.0f %s', number, first, count, stamp))
    end
    return {OK, first, stamp, folded, stamp, {}}
  end
end
