-- KEYS: log, meta, days, quotas, cooldowns, answers, procs, holes
-- ARGV: identity, seen, stamp of seen, process, lease in ms, what the time should be, mode, number
local log, meta = KEYS[1], KEYS[2]
local days, quotas, cooldowns, answers = KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local procs, holes = KEYS[7], KEYS[8]
local OK, CONFLICT, REPLACED, STALE = 0, 1, 2, 3
local SECOND = 1000000
local EMPTY = '\0' -- keeps a hash there when it has nothing else
local me = ARGV[4]

local function text(n) return string.format('%.0f', n) end

local known = redis.call('HMGET', meta, 'id', 'last', 'at', 'shift', 'folded', 'touched', 'turns', 'd:' .. me)
local complete = redis.call('EXISTS', unpack(KEYS)) == #KEYS -- the server may evict some
local identity = known[1]
local last, at = tonumber(known[2] or 0), tonumber(known[3] or 0)
local shift, folded = tonumber(known[4] or 0), tonumber(known[5] or 0)

-- The time of the log never goes back, and a jump of the server's clock does not move it.
local clock = redis.call('TIME')
local now = clock[1] * SECOND + clock[2] + shift
local expected = tonumber(ARGV[6])
local shifted
if expected > 0 and expected >= at and math.abs(now - expected) > SECOND then
  shifted = expected - now
elseif at - now > SECOND / 20 then
  shifted = at - now
end
if shifted then
  shift, now = shift + shifted, now + shifted
end
now = math.max(now, at)
local date = text(now)

local function keep_shift()
  if shifted then
    redis.call('HSET', meta, 'shift', text(shift))
  end
end

local function renew(process, ms, only)
  local ends = text(now / 1000 + ms)
  if only then
    redis.call('ZADD', procs, only, ends, process)
  else
    redis.call('ZADD', procs, ends, process)
  end
end

-- touch puts off the end of the keys, once an hour.
local function touch()
  if now - tonumber(known[6] or 0) > 3600 * SECOND then
    redis.call('HSET', meta, 'touched', date)
    for _, key in ipairs(KEYS) do
      redis.call('PEXPIRE', key, 604800000)
    end
  end
end

local function replaced() return {REPLACED, 0, date, 0, '', {}} end

-- renounce makes the log another one: events that somebody has seen are not there any more.
local function renounce()
  redis.call('HSET', meta, 'id', string.match(identity, '^[^.]*') .. '.' .. date)
  return replaced()
end

