-- The state is an instant, and the level at that instant: the time in which it drains, as whole
-- microseconds and parts of one. ARGV from i: the time that n units take to drain and its parts,
-- how many parts a microsecond has, the time that a full bucket takes and its parts.
local function look_b(key, i)
  local cost, cost_part, parts = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local state, level, part = redis.call('GET', key), 0, 0
  if state then
    local at, was, of = string.match(state, '^(%d+) (%d+) (%d+)$')
    at, level, part = tonumber(at), tonumber(was), tonumber(of)
    if at > now then -- the clock went back: the level is that of now
      put(key, instant() .. ' ' .. was .. ' ' .. of, math.ceil(level / 1000) + 2)
    else
      level = level - (now - at)
      if level < 0 then level, part = 0, 0 end
    end
  end
  local full, full_part = level + cost, part + cost_part
  if full_part >= parts then full, full_part = full + 1, full_part - parts end
  local some, brim, value = cost > 0 or cost_part > 0, tonumber(ARGV[i + 3]), nil
  local fits = not some or full < brim or full == brim and full_part <= tonumber(ARGV[i + 4])
  if fits and some then value = instant() .. string.format(' %.0f %.0f', full, full_part) end
  return fits, state or '', value, math.ceil(full / 1000) + 2
end
