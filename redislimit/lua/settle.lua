-- KEYS: the states of an operation, and its record. ARGV: milliseconds for which the record is kept;
-- then of each state its kind, '+' to charge now, '-' to give back, or '0', and four arguments. The
-- charge of any number of units fits.
local function keep(us) return math.ceil(us / 1000) + 1 end

local MOST = 4503599627370496 -- 2^52
local ENTRIES = 8192 -- of a log; what is charged beyond them joins the newest

-- cells changes the count of a cell: the one of now, or to give back that in which they were taken. Its
-- state is its start and then the counts.
local function cells(key, window, units, sign, taken, slides)
  local state = redis.call('GET', key)
  local start, mark = now - now % window, taken - taken % window
  local at, current, previous = start, 0, 0
  if state then
    at, current, previous = string.match(state, '^(%d+) (%d+) ?(%d*)$')
    at, current, previous = tonumber(at), tonumber(current), tonumber(previous) or 0
    if at == start - window and slides then
      at, current, previous = start, 0, current
    elseif at < start then
      at, current, previous = start, 0, 0
    end
  elseif sign == '-' then
    return
  end
  if sign == '+' then
    current = math.min(current + units, MOST)
  elseif at == mark then
    current = math.max(current - units, 0)
  elseif at == mark + window then
    previous = math.max(previous - units, 0)
  end
  local value, ends = text(at) .. ' ' .. text(current), at + window
  if slides then
    value, ends = value .. ' ' .. text(previous), ends + window
  end
  redis.call('PSETEX', key, keep(ends - now), value)
end

local settle = {}

settle.w = function(key, i, sign, mark)
  cells(key, tonumber(ARGV[i + 1]), tonumber(ARGV[i]), sign, mark, false)
end

settle.c = function(key, i, sign, mark)
  cells(key, tonumber(ARGV[i + 1]), tonumber(ARGV[i]), sign, mark, true)
end

settle.b = function(key, i, sign)
  local cost, cost_part, parts = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local level, part = 0, 0
  local state = redis.call('GET', key)
  if state then
    local at, was, of = string.match(state, '^(%d+) (%d+) (%d+)$')
    level, part = tonumber(was) - math.max(now - tonumber(at), 0), tonumber(of)
    if level < 0 then level, part = 0, 0 end
  end
  if sign == '+' then
    level, part = level + cost, part + cost_part
    if part >= parts then level, part = level + 1, part - parts end
    level = math.min(level, MOST)
  else
    level, part = level - cost, part - cost_part
    if part < 0 then level, part = level - 1, part + parts end
    if level < 0 then level, part = 0, 0 end
  end
  if level == 0 and part == 0 then
    redis.call('DEL', key)
    return
  end
  redis.call('PSETEX', key, keep(level + 1), text(now) .. ' ' .. text(level) .. ' ' .. text(part))
end

-- give_back takes units out of the entry of a mark, and moves the entries behind it.
local function give_back(key, units, mark, grain)
  local index = find(key, 0, 1, mark)
  local entry = redis.call('LINDEX', key, index)
  if not entry then return end
  local time, before, after = parse_entry(entry)
  if math.floor(time / grain) ~= math.floor(mark / grain) then return end
  units = math.min(units, (after - before) % WRAP)
  local behind = redis.call('LRANGE', key, index + 1, -1)
  if index == 0 then
    redis.call('DEL', key)
  else
    redis.call('LTRIM', key, 0, index - 1)
  end
  after = (after - units) % WRAP
  if after ~= before then
    redis.call('RPUSH', key, entry_of(time, before, after))
  end
  for _, entry in ipairs(behind) do
    local time, before, after = parse_entry(entry)
    redis.call('RPUSH', key, entry_of(time, (before - units) % WRAP, (after - units) % WRAP))
  end
end

settle.l = function(key, i, sign, mark)
  local units, window, grain = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  if sign == '-' then
    give_back(key, units, mark, grain)
  else
    local newest = redis.call('LINDEX', key, -1)
    local time, before, after = now, 0, 0
    if newest then
      time, before, after = parse_entry(newest)
      local _, base = parse_entry(redis.call('LINDEX', key, 0))
      units = math.min(units, math.max(WRAP / 2 - (after - base) % WRAP, 0))
    end
    local joins = time >= now or math.floor(time / grain) == math.floor(now / grain)
    if newest and (joins or redis.call('LLEN', key) >= ENTRIES) then
      redis.call('LSET', key, -1, entry_of(math.max(time, now), before, (after + units) % WRAP))
    else
      redis.call('RPUSH', key, entry_of(now, after, (after + units) % WRAP))
    end
  end
  redis.call('PEXPIRE', key, keep(window))
end

local record = redis.call('GET', KEYS[#KEYS])
if not record then return 'unknown' end
local settled, seconds, us = string.match(record, '^(S?)1 (%d+) (%d+)\n')
if settled == 'S' then return 'settled' end
local taken = seconds * 1000000 + us
for k = 1, #KEYS - 1 do
  local i = 6 * k - 4
  if ARGV[i + 1] ~= '0' then
    settle[ARGV[i]](KEYS[k], i + 2, ARGV[i + 1], taken)
  end
end
redis.call('SET', KEYS[#KEYS], 'S' .. record, 'PX', ARGV[1])
return 'settled'
