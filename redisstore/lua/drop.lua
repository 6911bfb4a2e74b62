-- ARGV goes on with pairs of places, from and to. The last event stays, so that the next one gets
-- another place.
if identity ~= ARGV[1] or not complete then
  return {REPLACED, 0, text(now), 0, '', {}}
end
for i = 9, #ARGV, 2 do
  local from, to = tonumber(ARGV[i]), math.min(tonumber(ARGV[i + 1]), last - 1)
  local head = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)
  if #head > 0 and to >= from then
    if place(head[1][1]) >= from then
      redis.call('XTRIM', log, 'MINID', text(to + 1) .. '-0')
    else
      local ids = {}
      for _, entry in ipairs(redis.call('XRANGE', log, text(from), text(to), 'COUNT', 1000)) do
        ids[#ids + 1] = entry[1]
      end
      if #ids > 0 then
        redis.call('XDEL', log, unpack(ids))
      end
    end
    folded = math.max(folded, to)
  end
end
redis.call('HSET', meta, 'folded', text(folded))
return {OK, last, text(now), folded, '', {}}
