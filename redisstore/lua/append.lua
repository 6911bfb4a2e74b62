-- ARGV goes on with: the number of events, their entry, effects after their number, and days after
-- their number. Where the batch decides nothing, the entry follows in pieces, with what comes
-- between them: a model, its day, and the requests and tokens that the event adds to that.
if identity ~= ARGV[1] or not complete then
  return replaced()
end
local seen, stamp, mode, number = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[7], tonumber(ARGV[8])
local count, value = tonumber(ARGV[9]), ARGV[10]

-- A client that had no reply sends a batch again.
if known[8] and mode ~= 'l' then
  local done, first, when = string.match(known[8], '^(%d+) (%d+) (%d+)$')
  if number == tonumber(done) then
    local news = {}
    if mode == 'a' or mode == 'n' then
      news = redis.call('XRANGE', log, text(seen + 1), first)
    end
    return {OK, tonumber(first), date, folded, when, news}
  elseif number < tonumber(done) then
    return {STALE, 0, date, folded, '', {}}
  end
end

local turns
if known[7] and known[7] ~= '' then
  turns = turns_of(known[7])
end
if mode == 'l' then
  if turns then
    turns.leave()
    turns.keep()
  end
  return {OK, last, date, folded, '', {}}
end

local late, news, read = last ~= seen, {}, nil
if late or stamp ~= 0 and stamp ~= at then
  read = entries()
  news = read.behind(seen, stamp, 64)
  if not news then
    return renounce()
  end
end
if mode ~= 'a' and (late or mode ~= 'n' and turns and turns.bars()) then
  turns = turns or turns_of('')
  local line = turns.ahead(mode == 'q')
  keep_shift()
  turns.keep()
  return {CONFLICT, last, date, folded, line, news}
end

-- A batch that decides nothing does not mind what others have written, but the days that these tell
-- go on from there. The plan of the batch has to be made anew where they did more to days.
local told = {}
if late then
  for _, entry in ipairs(news) do
    if not read.tell(entry, told) then
      return {CONFLICT, last, date, folded, '', news}
    end
  end
  if #news == 0 or read.last_of(news[#news]) ~= last then
    return {CONFLICT, last, date, folded, '', news}
  end
end

local EFFECTS = 11
local DAYS = EFFECTS + 1 + ARGV[EFFECTS]
local PIECES = DAYS + 1 + ARGV[DAYS]
local said = {}
local goes_on = late or mode == 'n' -- the days were planned without what others have written
if goes_on then
  local after
  said, after = days_behind()
  local parts = {ARGV[PIECES]}
  for i = PIECES + 1, #ARGV, 5 do
    local day = ARGV[i + 1]
    if told[ARGV[i]] or mode == 'n' then
      day = after(ARGV[i], day, ARGV[i + 2], ARGV[i + 3])
    end
    parts[#parts + 1] = string.char(#day)
    parts[#parts + 1] = day
    parts[#parts + 1] = ARGV[i + 4]
  end
  value = table.concat(parts)
end

local first = text(last + 1)
if count > 0 then
  local id = first .. '-' .. date
  redis.call('XADD', log, id, 'e', value)
  if goes_on then
    news[#news + 1] = {id, {'e', value}}
  end
end
if DAYS > EFFECTS + 1 then
  local effects = effects_of()
  for i = EFFECTS + 1, DAYS - 1, 3 do
    effects[ARGV[i]](ARGV[i + 1], ARGV[i + 2])
  end
end
if PIECES == DAYS + 3 then
  redis.call('HSET', days, ARGV[DAYS + 1], said[ARGV[DAYS + 1]] or ARGV[DAYS + 2])
elseif PIECES > DAYS + 1 then
  local changed = {}
  for i = DAYS + 1, PIECES - 1, 2 do
    changed[#changed + 1] = ARGV[i]
    changed[#changed + 1] = said[ARGV[i]] or ARGV[i + 1]
  end
  redis.call('HSET', days, unpack(changed))
end
keep_shift()
if count > 0 then
  redis.call('HSET', meta, 'last', text(last + count), 'at', date, 'd:' .. me, ARGV[8] .. ' ' .. first .. ' ' .. date)
end
if turns then
  turns.leave()
  turns.keep()
end
if ARGV[5] ~= '0' then
  renew(me, tonumber(ARGV[5]))
end
touch()
if not goes_on then
  news = {}
end
return {OK, last + 1, date, folded, date, news}
