if identity ~= wanted or not complete then
  return replaced()
end
local number, planned = string.match(ARGV[8], '^(%d+) (%d+) $')
local count = string.match(ARGV[2], '(%d+) $') - planned + 1
number = tonumber(number)

-- A client that had no reply sends a batch again.
if done and mode ~= 'l' and mode ~= 'j' then
  local was, first, when = string.match(done, '^(%d+) (%d+) (%d+)$')
  if number == tonumber(was) then
    local news = {}
    if mode == 'a' or mode == 'n' then
      news = redis.call('XRANGE', log, text(seen + 1), first)
    end
    return answer(OK, tonumber(first), when, news)
  elseif number < tonumber(was) then
    return answer(STALE, 0, '', {})
  end
end

local turns, line_was = nil, line
if line ~= '' then
  turns = turns_of()
end
if mode == 'l' then
  if turns then
    turns.leave()
    keep('turns', turns.stand())
  end
  return answer(OK, last, '', {})
end

local late, news, read = last ~= seen, {}, nil
if late or stamp ~= 0 and stamp ~= at then
  read = entries()
  news = read.behind(seen, stamp, 64)
  if not news then
    return renounce()
  end
end
if mode == 'j' or mode ~= 'a' and (late or mode ~= 'n' and turns and turns.bars()) then
  turns = turns or turns_of()
  local ahead = turns.ahead(mode == 'q' or mode == 'j')
  if turns.stand() ~= line_was or shifted then
    keep('turns', line)
  end
  return answer(CONFLICT, last, ahead, news)
end

-- A batch that decides nothing does not mind what others have written, but the days that these tell
-- go on from there. The plan of the batch has to be made anew where they did more to days.
local told = {}
if late then
  for _, entry in ipairs(news) do
    if not read.tell(entry, told) then
      return answer(CONFLICT, last, '', news)
    end
  end
  if #news == 0 or read.last_of(news[#news]) ~= last then
    return answer(CONFLICT, last, '', news)
  end
end

local value = ARGV[9]
local DAYS = 11 + fields
local said = {}
local goes_on = late or mode == 'n' -- the days were planned without what others have written
if goes_on and added ~= '' then
  local models = {}
  local begin = (read or entries()).models(value, function(model, i) models[i] = model end)
  value, said = days_behind(value, begin, added, models, mode ~= 'n' and told)
end

local first = last + 1
if count > 0 then
  local id = text(first) .. '-' .. date
  redis.call('XADD', log, id, 'e', value)
  if goes_on then
    news[#news + 1] = {id, {'e', value}}
  end
  last, at = last + count, now
end
if DAYS > 11 then
  local effects = effects_of()
  for i = 11, DAYS - 1, 3 do
    effects[ARGV[i]](ARGV[i + 1], ARGV[i + 2], first)
  end
end
if ARGV[DAYS] then
  local changed = {}
  for i = DAYS, #ARGV, 2 do
    changed[#changed + 1] = ARGV[i]
    changed[#changed + 1] = said[ARGV[i]] or ARGV[i + 1]
  end
  redis.call('HSET', days, unpack(changed))
end
if turns then
  turns.leave()
  turns.stand()
end
if count > 0 then
  keep('turns', line, 'd:' .. me, text(number) .. ' ' .. text(first) .. ' ' .. date)
elseif line ~= line_was or shifted then
  keep('turns', line)
end
if lease ~= '0' then
  renew(me, tonumber(lease))
end
touch()
if not goes_on then
  news = {}
end
return answer(OK, first, date, news)
