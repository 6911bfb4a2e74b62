-- KEYS: log, meta, days, quotas, cooldowns, answers, procs
-- ARGV: identity, seen, stamp of seen, process, lease in ms, what the time should be, mode, number
local log, meta = KEYS[1], KEYS[2]
local days, quotas, cooldowns, answers, procs = KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local OK, CONFLICT, REPLACED, STALE = 0, 1, 2, 3
local SECOND = 1000000
local EMPTY = '\0' -- keeps a hash there when it has nothing else
local me = ARGV[4]

local known = redis.call('HMGET', meta, 'id', 'last', 'at', 'shift', 'folded', 'touched', 'turns', 'd:' .. me)
local complete = redis.call('EXISTS', unpack(KEYS)) == #KEYS
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
