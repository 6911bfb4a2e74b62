-- The state is the start of a cell, and its count. ARGV from i: n, limit, window.
decide.w = function(key, i)
  local n, limit, window = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local start, count = now - now % window, 0
  local left = start + window - now
  local function write()
    redis.call('PSETEX', key, keep(left), string.format('%.0f %.0f', start, count))
  end
  local state = redis.call('GET', key)
  if state then
    local at, units = string.match(state, '^(%d+) (%d+)$')
    at = tonumber(at)
    if at >= start then
      count = tonumber(units)
      if at > start then write() end -- the clock went back: the units are of this cell, now
    end
  end
  local report = string.format('%.0f %.0f', count, left)
  local function charge()
    count = count + n
    write()
  end
  return n == 0 or count + n <= limit, report, n > 0 and charge, start
end
