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

-- days_behind returns an entry with the days of models as they are behind what others have written,
-- and those days. Its events begin at a byte of it. The days are those of the models that others have
-- told of, or of all.
local function days_behind(value, begin, added, models, told)
  -- follows is the function of the same name beside DayAdded.After, for days as texts. The
  -- difference of their starts, in nanoseconds, is exact for months.
  local function follows(day, earlier)
    if string.sub(earlier, 1, 8) == '\128\0\0\0\0\0\0\0' then
      return true -- there was none
    end
    local MINUTE, apart = 60000000000, 0
    for i = 1, 8 do
      apart = apart * 256 + string.byte(day, i) - string.byte(earlier, i)
    end
    return apart >= 1440 * MINUTE or apart >= 1380 * MINUTE and math.fmod(apart, MINUTE) == 0
  end

  local said = {} -- days of models that are not as they were planned

  -- after is DayAdded.After, for the day of a model as it is in the store.
  local function after(model, is, requests, tokens)
    local key = model
    if string.sub(model, 1, 1) == EMPTY then
      key = EMPTY .. model
    end
    local was = said[key] or redis.call('HGET', days, key)
    if not was or follows(is, was) then
      said[key] = is
    elseif follows(was, is) and tonumber(requests) <= 0 then
      said[key] = was
    else
      local requests_were, tokens_were = string.match(was, '^(%d+) (%d+)$', 9)
      said[key] = string.sub(was, 1, 8) .. plus(requests_were, requests) .. ' ' .. plus(tokens_were, tokens)
    end
    return said[key]
  end

  local parts, from = {}, 1
  for offset, model, requests, tokens in string.gmatch(added, '(%d+) (%d+) (%S+) (%S+);') do
    local at, name = begin + offset, models[tonumber(model)]
    local next = at + 1 + string.byte(value, at)
    if not told or told[name] then
      local day = after(name, string.sub(value, at + 1, next - 1), requests, tokens)
      parts[#parts + 1] = string.sub(value, from, at - 1)
      parts[#parts + 1] = string.char(#day)
      parts[#parts + 1] = day
      from = next
    end
  end
  parts[#parts + 1] = string.sub(value, from)
  return table.concat(parts), said
end

