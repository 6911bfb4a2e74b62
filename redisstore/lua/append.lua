-- After the common ones, ARGV is items of six: value, model, day, requests and tokens added to the
-- day, and what else is to be done, by a letter and its argument.
if identity ~= ARGV[1] or not complete then
  return {REPLACED, 0, text(now), 0, '', {}}
end
local seen, stamp, mode, number = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[7], tonumber(ARGV[8])
local FIRST = 9
local PAGE = 200
local TURN = SECOND / 50 -- how long the head of the turns may take

-- A client that had no reply sends a batch again.
if known[8] and mode ~= 'l' then
  local done, first, count, when = string.match(known[8], '^(%d+) (%d+) (%d+) (%d+)$')
  if number == tonumber(done) then
    local entries = {}
    if mode == 'a' then
      entries = redis.call('XRANGE', log, text(seen + 1), text(first + count - 1), 'COUNT', PAGE + count)
    end
    return {OK, tonumber(first), text(now), folded, when, entries}
  elseif number < tonumber(done) then
    return {STALE, 0, text(now), folded, '', {}}
  end
end

-- turns are the processes that had to decide again: only the first of them may decide.
local turns, until_when = {}, nil
if known[7] and known[7] ~= '' then
  for word in string.gmatch(known[7], '%S+') do
    if not until_when then
      until_when = tonumber(word)
    else
      turns[#turns + 1] = word
    end
  end
  if now > until_when or until_when - now > 2 * TURN then
    table.remove(turns, 1)
    until_when = now + TURN
  end
end

local function keep_turns()
  local line = ''
  if #turns > 0 then
    line = text(until_when) .. ' ' .. table.concat(turns, ' ')
  end
  if line ~= (known[7] or '') then
    redis.call('HSET', meta, 'turns', line)
  end
end

-- ahead returns the processes whose turn comes before mine, which gets in line.
local function ahead(queue)
  local before = {}
  for _, process in ipairs(turns) do
    if process == me then
      return table.concat(before, ' ')
    end
    before[#before + 1] = process
  end
  if queue and #turns < 64 then
    if #turns == 0 then
      until_when = now + TURN
    end
    turns[#turns + 1] = me
  end
  return table.concat(before, ' ')
end

if mode == 'l' then
  for i, process in ipairs(turns) do
    if process == me then
      table.remove(turns, i)
      if i == 1 then
        until_when = now + TURN
      end
      break
    end
  end
  keep_turns()
  return {OK, last, text(now), folded, '', {}}
end

local news = {}
if last ~= seen or stamp ~= 0 and stamp ~= at then
  news = behind(seen, stamp, PAGE)
  if not news then
    return renounce()
  end
end
if mode ~= 'a' and (last ~= seen or #turns > 0 and turns[1] ~= me) then
  local line = ahead(mode == 'q' or #turns > 0)
  keep_shift()
  keep_turns()
  return {CONFLICT, last, text(now), folded, line, news}
end

-- A batch that decides nothing does not mind what others have written, but the days that these tell
-- go on from there. The plan of the batch has to be made anew where they did more to days.
local DAY, RESET, QUOTA, DAY_EVENT = 128, 7, 9, 14
local told = {}
for _, entry in ipairs(news) do
  local flags, kind, length, more = string.byte(entry[2][2], 1, 4)
  local from = 4
  if length >= 128 then
    length, from = length % 128 + more * 128, 5
    if more >= 128 then
      return {CONFLICT, last, text(now), folded, '', news}
    end
  end
  if kind == RESET or kind == QUOTA or kind == DAY_EVENT then
    return {CONFLICT, last, text(now), folded, '', news}
  end
  if flags >= DAY then
    told[string.sub(entry[2][2], from, from + length - 1)] = true
  end
end
if last - seen ~= #news then
  return {CONFLICT, last, text(now), folded, '', news}
end

-- before compares the first eight bytes of two texts, which are a number.
local function before(a, b)
  for i = 1, 8 do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return false
end

-- plus adds to a whole number between zero and the largest of 63 bits, in two parts: a number of
-- Lua has 53 bits.
local function plus(was, more)
  if #was <= 15 and #more <= 15 then
    return text(math.max(tonumber(was) + tonumber(more), 0))
  end
  local BASE = 1000000000
  local function split(n)
    local sign = 1
    if string.sub(n, 1, 1) == '-' then
      sign, n = -1, string.sub(n, 2)
    end
    local low = tonumber(string.sub(n, -9))
    local high = #n > 9 and tonumber(string.sub(n, 1, -10)) or 0
    return sign * high, sign * low
  end
  local high, low = split(was)
  local more_high, more_low = split(more)
  high, low = high + more_high, low + more_low
  if low >= BASE then
    high, low = high + 1, low - BASE
  elseif low < 0 then
    high, low = high - 1, low + BASE
  end
  if high < 0 then
    return '0'
  elseif high > 9223372036 or high == 9223372036 and low > 854775807 then
    return '9223372036854775807'
  end
  return string.format('%.0f%09.0f', high, low)
end

local said = {} -- the days of models after the events so far

-- follows is the function of the same name beside DayAdded.After, for days as texts: the
-- difference of their starts in nanoseconds is exact for months.
local function follows(day, earlier)
  local apart = 0
  for i = 1, 8 do
    apart = apart * 256 + string.byte(day, i) - string.byte(earlier, i)
  end
  local MINUTE = 60000000000
  return apart >= 1440 * MINUTE or apart >= 1380 * MINUTE and math.fmod(apart, MINUTE) == 0
end

-- after is DayAdded.After, for the day of a model as it is in the store.
local function after(model, is, requests, tokens)
  local was = said[model] or redis.call('HGET', days, model)
  if not was or follows(is, was) then
    return is
  end
  if follows(was, is) and tonumber(requests) <= 0 then
    return was
  end
  local count, total = string.match(was, '^(%d+) (%d+)$', 9)
  return string.sub(was, 1, 8) .. plus(count, requests) .. ' ' .. plus(total, tokens)
end

local function forget_all(key)
  redis.call('UNLINK', key)
  redis.call('HSET', key, EMPTY, '')
  redis.call('PEXPIRE', key, 604800000)
end

local effects = {
  q = function(field, arg) redis.call('HSET', quotas, field, arg) end,
  Q = function(field) redis.call('HDEL', quotas, field) end,
  a = function(model, arg) redis.call('HSET', answers, model, arg) end,
  c = function(model, arg)
    local was = redis.call('HGET', cooldowns, model)
    if not was or before(was, arg) then
      redis.call('HSET', cooldowns, model, arg)
    end
  end,
  x = function(model) redis.call('HDEL', cooldowns, model) end,
  r = function(model)
    said[model] = nil
    redis.call('HDEL', days, model)
    redis.call('HDEL', cooldowns, model)
  end,
  R = function()
    said = {}
    forget_all(days)
    forget_all(cooldowns)
  end,
  g = function(process)
    redis.call('ZREM', procs, process)
    redis.call('HDEL', meta, 'd:' .. process)
  end,
  v = function(process, ms) renew(process, tonumber(ms), 'NX') end,
}

local late, first, count, date = last ~= seen, last + 1, 0, '-' .. text(now)
for i = FIRST, #ARGV, 6 do
  local value, model, day, effect = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 5]
  if value ~= '' then
    if day ~= '' and told[model] then
      day = after(model, day, ARGV[i + 3], ARGV[i + 4])
    end
    redis.call('XADD', log, text(last + 1) .. date, 'e', value .. day)
    last, count = last + 1, count + 1
    if day ~= '' then
      said[model] = day
    end
  end
  if effect ~= '' then
    effects[string.sub(effect, 1, 1)](model, string.sub(effect, 2))
  end
end
local changed = {}
for model, day in pairs(said) do
  changed[#changed + 1] = model
  changed[#changed + 1] = day
end
if #changed > 0 then
  redis.call('HSET', days, unpack(changed))
end
keep_shift()
if count > 0 then
  redis.call('HSET', meta, 'last', text(last), 'at', text(now),
    'd:' .. me, ARGV[8] .. ' ' .. text(first) .. ' ' .. text(count) .. ' ' .. text(now))
end
if turns[1] == me then
  table.remove(turns, 1)
  until_when = now + TURN
end
keep_turns()
if ARGV[5] ~= '0' then
  renew(me, tonumber(ARGV[5]))
end
touch()
if late then
  news = redis.call('XRANGE', log, text(seen + 1), '+', 'COUNT', PAGE + count)
end
return {OK, first, text(now), folded, text(now), news}
