-- below reports whether a * b < c * d, of whole numbers below 2^51, of which a product has more
-- digits than a double.
local function below(a, b, c, d)
  local first, second = a * b, c * d
  if first < 9007199254740992 and second < 9007199254740992 then
    return first < second
  end
  if math.abs(first - second) > second / 1000000 then
    return first < second
  end
  local half = 67108864 -- 2^26
  local function words(x, y)
    local x1, y1 = math.floor(x / half), math.floor(y / half)
    local x0, y0 = x - x1 * half, y - y1 * half
    local low = x0 * y0
    local middle = x1 * y0 + x0 * y1 + math.floor(low / half)
    return x1 * y1 + math.floor(middle / half), middle % half, low % half
  end
  local high1, middle1, low1 = words(a, b)
  local high2, middle2, low2 = words(c, d)
  if high1 ~= high2 then return high1 < high2 end
  if middle1 ~= middle2 then return middle1 < middle2 end
  return low1 < low2
end

-- The state is the start of a cell, its count, and that of the cell before. ARGV from i: n, limit,
-- window.
local function decide_c(key, i, charge)
  local n, window = tonumber(ARGV[i]), tonumber(ARGV[i + 2])
  local start, current, previous, back = now - now % window, 0, 0, false
  local left = start + window - now
  local state = redis.call('GET', key)
  if state then
    local at, units, before = string.match(state, '^(%d+) (%d+) (%d+)$')
    at = tonumber(at)
    if at >= start then -- if the clock went back, the counts are of these cells
      current, previous, back = tonumber(units), tonumber(before), at > start
    elseif at == start - window then
      previous = tonumber(units)
    end
  end
  local room = tonumber(ARGV[i + 1]) - current - n
  local fits = n == 0 or room >= 0 and (previous <= room or below(previous, left, room + 1, window))
  charge = charge and fits and n > 0
  if charge or back then
    local after = charge and current + n or current
    redis.call('PSETEX', key, math.ceil((left + window) / 1000) + 1,
      string.format('%.0f %.0f %.0f', start, after, previous))
  end
  return fits, string.format('%.0f %.0f %.0f', current, previous, left), start
end
