-- The state is the start of a cell, and its count. ARGV from i: n, limit, window.
local function decide_w(key, i, charge)
  local n, window = tonumber(ARGV[i]), tonumber(ARGV[i + 2])
  local start, count, back = now - now % window, 0, false
  local left = start + window - now
  local state = redis.call('GET', key)
  if state then
    local at, units = string.match(state, '^(%d+) (%d+)$')
    at = tonumber(at)
    if at >= start then
      count, back = tonumber(units), at > start -- if the clock went back, the units are of this cell
    end
  end
  local fits = n == 0 or count + n <= tonumber(ARGV[i + 1])
  charge = charge and fits and n > 0
  if charge or back then
    local after = charge and count + n or count
    redis.call('PSETEX', key, math.ceil(left / 1000) + 1, string.format('%.0f %.0f', start, after))
  end
  return fits, string.format('%.0f %.0f', count, left), start
end
