-- ARGV goes on with pairs of places, from and to. The last event stays, so that the next one gets
-- another place. An entry goes when all of its events are dropped; until then, holes has a 1 for
-- each that is.
if identity ~= wanted or not complete then
  return replaced()
end

-- Without memory for more, a script may not begin with a write that takes some. What this one writes
-- is less than what it frees.
redis.call('HDEL', holes, '')

local read = entries()
local place, last_of = read.place, read.last_of

local function drop(entry, from, to)
  local first, final = place(entry[1]), last_of(entry)
  from, to = math.max(from, first), math.min(to, final)
  if from > to then
    return
  end
  local size = final - first + 1
  if to - from + 1 < size then
    local field = text(first)
    local is = redis.call('HGET', holes, field) or string.rep('0', size)
    is = string.sub(is, 1, from - first) .. string.rep('1', to - from + 1) .. string.sub(is, to - first + 2)
    if string.find(is, '0', 1, true) then
      redis.call('HSET', holes, field, is)
      return
    end
  end
  redis.call('HDEL', holes, text(first))
  redis.call('XDEL', log, entry[1])
end

for i = 7, #ARGV, 2 do
  local from, to = tonumber(ARGV[i]), math.min(tonumber(ARGV[i + 1]), last - 1)
  if to >= from then
    local before = redis.call('XREVRANGE', log, text(from), '-', 'COUNT', 1)[1]
    if before then
      drop(before, from, to)
    end
    for _, entry in ipairs(redis.call('XRANGE', log, text(from + 1), text(to))) do
      drop(entry, from, to)
    end
    folded = math.max(folded, to)
  end
end
keep()
return answer(OK, last, '', {})
