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
local function look_c(key, i)
  local window, state = tonumber(ARGV[i + 2]), redis.call('GET', key)
  local start, begin, current, previous = now - now % window, nil, 0, '0'
  local left = start + window - now
  local ttl = math.ceil((left + window) / 1000) + 1
  if state then
    local at, units, before = string.match(state, '^(%d+) (%d+) (%d+)$')
    local cell = tonumber(at)
    if cell >= start then
      current, previous = tonumber(units), before
    elseif cell == start - window then
      previous = units
    end
    if cell == start then
      begin, ttl = at, nil
    elseif cell > start then -- the clock went back: the counts are of these cells
      put(key, text(start) .. ' ' .. units .. ' ' .. before, ttl)
    end
  end
  local n, before, value = tonumber(ARGV[i]), tonumber(previous), nil
  local room = tonumber(ARGV[i + 1]) - current - n
  local fits = n == 0 or room >= 0 and (before <= room or below(before, left, room + 1, window))
  if fits and n > 0 then value = (begin or text(start)) .. ' ' .. text(current + n) .. ' ' .. previous end
  return fits, state or '', value, ttl
end
