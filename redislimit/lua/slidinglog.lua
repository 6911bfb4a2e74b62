-- The state is a list of entries, oldest first, each with its time and the units ever charged
-- before and after it, modulo WRAP. So the units between two entries are a difference, and no
-- decision sums them up. An entry has the charges of one grain of time, and the latest of their
-- times. ARGV from i: n, limit, window, grain, the milliseconds of a TTL. The state that an answer has
-- is the units that count, when the entry was charged that has to leave, and the newest; 0 for none.
local WRAP = 4503599627370496 -- 2^52

local function entry_of(time, before, after)
  return string.format('%.0f %.0f %.0f', time, before, after)
end

local function parse_entry(entry)
  local time, before, after = string.match(entry, '^(%d+) (%d+) (%d+)$')
  return tonumber(time), tonumber(before), tonumber(after)
end

-- find returns the first index from first on at whose entry the field, less base, reaches a value,
-- and the length if there is none. The field grows from entry to entry.
local function find(key, first, field, value, base)
  local last = redis.call('LLEN', key)
  while first < last do
    local middle = math.floor((first + last) / 2)
    local entry = select(field, parse_entry(redis.call('LINDEX', key, middle)))
    if base then entry = (entry - base) % WRAP end
    if entry >= value then
      last = middle
    else
      first = middle + 1
    end
  end
  return first
end

local function put_l(key, entry, ttl, joins)
  if joins then
    redis.call('LSET', key, -1, entry)
  else
    redis.call('RPUSH', key, entry)
  end
  redis.call('PEXPIRE', key, ttl)
end

local function look_l(key, i)
  local n, limit, window = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local newest, before, after = '0', '0', '0' -- of the newest entry
  local oldest, base, first = nil, 0, 0 -- when, and the units before and after the oldest entry
  local ends = redis.call('LINDEX', key, -1)
  if ends then
    newest, before, after = string.match(ends, '^(%d+) (%d+) (%d+)$')
    oldest, base, first = parse_entry(redis.call('LINDEX', key, 0))
    if tonumber(newest) > now then -- the clock went back: all is charged now
      newest, before, after = instant(), '0', text((after - base) % WRAP)
      oldest, base, first = now, 0, tonumber(after)
      redis.call('DEL', key)
      put_l(key, instant() .. ' 0 ' .. after, ARGV[i + 4], false)
    elseif tonumber(newest) <= now - window then
      redis.call('DEL', key)
      newest, before, after, base = '0', '0', '0', 0
    elseif oldest <= now - window then
      redis.call('LTRIM', key, find(key, 1, 1, now - window + 1), -1)
      oldest, base, first = parse_entry(redis.call('LINDEX', key, 0))
    end
  end
  local used, leaves = (after - base) % WRAP, '0'
  local fits = n == 0 or used + n <= limit
  if not fits and n <= limit then
    local leave = used + n - limit
    if (first - base) % WRAP < leave then
      oldest = parse_entry(redis.call('LINDEX', key, find(key, 1, 3, leave, base)))
    end
    leaves = text(oldest)
  end
  local grain, value = tonumber(ARGV[i + 3]), nil
  local joins = newest ~= '0' and math.floor(newest / grain) == math.floor(now / grain)
  if fits and n > 0 then
    value = instant() .. ' ' .. (joins and before or after) .. ' ' .. text((after + n) % WRAP)
  end
  return fits, text(used) .. ' ' .. leaves .. ' ' .. newest, value, ARGV[i + 4], joins
end
