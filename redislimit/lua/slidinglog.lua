-- The state is a list of entries, oldest first, each with its time and the units ever charged
-- before and after it, modulo WRAP. So the units between two entries are a difference, and no
-- decision sums them up. An entry has the charges of one grain of time, and the latest of their
-- times. ARGV from i: n, limit, window, grain.
local WRAP = 4503599627370496 -- 2^52

local function entry_of(time, before, after)
  return string.format('%.0f %.0f %.0f', time, before, after)
end

local function parse_entry(entry)
  local time, before, after = string.match(entry, '^(%d+) (%d+) (%d+)$')
  return tonumber(time), tonumber(before), tonumber(after)
end

-- find returns the first index from first on for whose entry is holds, and the length if there is
-- none. is holds for all entries behind one for which it holds.
local function find(key, first, is)
  local last = redis.call('LLEN', key)
  while first < last do
    local middle = math.floor((first + last) / 2)
    if is(parse_entry(redis.call('LINDEX', key, middle))) then
      last = middle
    else
      first = middle + 1
    end
  end
  return first
end

decide.l = function(key, i)
  local n, limit = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local window, grain = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local used, newest, before, after = 0, nil, 0, 0
  local base = 0 -- the units before the oldest entry
  local oldest = redis.call('LINDEX', key, 0)
  if oldest then
    newest, before, after = parse_entry(redis.call('LINDEX', key, -1))
    local time
    time, base = parse_entry(oldest)
    if newest > now then -- the clock went back: all is charged now
      before, after, newest = 0, (after - base) % WRAP, now
      base = 0
      redis.call('DEL', key)
      redis.call('RPUSH', key, entry_of(now, 0, after))
      redis.call('PEXPIRE', key, keep(window))
    elseif newest <= now - window then
      redis.call('DEL', key)
      newest, before, after, base = nil, 0, 0, 0
    elseif time <= now - window then
      redis.call('LTRIM', key, find(key, 1, function(time) return time > now - window end), -1)
      time, base = parse_entry(redis.call('LINDEX', key, 0))
    end
    used = (after - base) % WRAP
  end
  local fits, retry, reset = n == 0 or used + n <= limit, 0, 0
  if newest then reset = newest + window - now end
  if not fits and n <= limit then
    local leave = used + n - limit
    local last = find(key, 0, function(_, _, after) return (after - base) % WRAP >= leave end)
    retry = parse_entry(redis.call('LINDEX', key, last)) + window - now
  end
  local function charge()
    if newest and math.floor(newest / grain) == math.floor(now / grain) then
      redis.call('LSET', key, -1, entry_of(now, before, (after + n) % WRAP))
    else
      redis.call('RPUSH', key, entry_of(now, after, (after + n) % WRAP))
    end
    redis.call('PEXPIRE', key, keep(window))
  end
  return fits, string.format('%.0f %.0f %.0f', used, retry, reset), n > 0 and charge, now
end
