-- The state is the start of a cell, and its count. ARGV from i: n, limit, window.
local function look_w(key, i)
  local window, state = tonumber(ARGV[i + 2]), redis.call('GET', key)
  local start, begin, count = now - now % window, nil, 0
  local ttl = math.ceil((start + window - now) / 1000) + 1
  if state then
    local at, units = string.match(state, '^(%d+) (%d+)$')
    local cell = tonumber(at)
    if cell >= start then count = tonumber(units) end
    if cell == start then
      begin, ttl = at, nil
    elseif cell > start then -- the clock went back: the units are of this cell
      put(key, text(start) .. ' ' .. units, ttl)
    end
  end
  local n, value = tonumber(ARGV[i]), nil
  local fits = n == 0 or count + n <= tonumber(ARGV[i + 1])
  if fits and n > 0 then value = (begin or text(start)) .. ' ' .. text(count + n) end
  return fits, state or '', value, ttl
end
