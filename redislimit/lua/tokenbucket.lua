-- The state is an instant, and the level at that instant: the time in which it drains, as whole
-- microseconds and parts of one. ARGV from i: the time that n units take to drain and its parts,
-- how many parts a microsecond has, the time that a full bucket takes and its parts.
decide.b = function(key, i)
  local cost, cost_part, parts = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local brim, brim_part = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local level, part = 0, 0
  local function write()
    redis.call('PSETEX', key, keep(level + 1), string.format('%.0f %.0f %.0f', now, level, part))
  end
  local state = redis.call('GET', key)
  if state then
    local at, was, of = string.match(state, '^(%d+) (%d+) (%d+)$')
    at, level, part = tonumber(at), tonumber(was), tonumber(of)
    if at > now then
      write() -- the clock went back: the level is that of now
    else
      level = level - (now - at)
      if level < 0 then level, part = 0, 0 end
    end
  end
  local report = string.format('%.0f %.0f', level, part)
  local full, full_part = level + cost, part + cost_part
  if full_part >= parts then full, full_part = full + 1, full_part - parts end
  local some = cost > 0 or cost_part > 0
  local fits = not some or full < brim or full == brim and full_part <= brim_part
  local function charge()
    level, part = full, full_part
    write()
  end
  return fits, report, some and charge, 0
end
