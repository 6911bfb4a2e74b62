-- KEYS: log, meta, days, quotas, cooldowns, answers, procs, holes, found, spend, pools
local log, meta = KEYS[1], KEYS[2]
local days, quotas, cooldowns, answers = KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local procs, holes, found, spend, pools = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local OK, CONFLICT, REPLACED, STALE = 0, 1, 2, 3
local SECOND = 1000000
local EMPTY = '\0' -- keeps a hash there when it has nothing else
-- LATER is a field of days, which is no day. Versions that do not know spend and pools fail with these words.
-- Those that know found pass over the field that said so before, without the comma.
local LATER = '\0(the store is of a later version of go-ratelimit, update this program)'

local function text(n) return string.format('%.0f', n) end

-- The head is the identity of the log, the shift of its time against the server's clock, the place
-- up to which events were deleted, 1 if processes wait in line, the place of the last event, and its
-- time.
local head, line, done, touched = unpack(redis.call('HMGET', meta, 'head', 'turns', 'd:' .. me, 'touched'))
local complete = redis.call('EXISTS', unpack(KEYS)) == #KEYS -- the server may evict some
local identity, shift, folded, last, at = string.match(head or '', '^(%S+) (%S+) (%S+) %d (%S+) (%S+)$')
shift, folded, last, at = tonumber(shift or 0), tonumber(folded or 0), tonumber(last or 0), tonumber(at or 0)
line = line or ''

-- The time of the log never goes back, and a jump of the server's clock does not move it. What a
-- process expects is late by the way of a reply, so it may be a little before the last event.
local clock = redis.call('TIME')
local now = clock[1] * SECOND + clock[2] + shift
local shifted
if expected > 0 and at - expected <= SECOND and math.abs(now - math.max(expected, at)) > SECOND then
  shifted = math.max(expected, at) - now
elseif at - now > SECOND / 20 then
  shifted = at - now
end
if shifted then
  shift, now = shift + shifted, now + shifted
end
now = math.max(now, at)
local date = text(now)

-- facts is what the head begins with.
local function facts()
  return identity .. ' ' .. text(shift) .. ' ' .. text(folded) .. (line == '' and ' 0 ' or ' 1 ')
end

-- keep writes the head, and what else of meta has changed.
local function keep(...)
  redis.call('HSET', meta, 'head', facts() .. text(last) .. ' ' .. text(at), ...)
end

local function renew(process, ms, only)
  local ends = text(now / 1000 + ms)
  if only then
    redis.call('ZADD', procs, only, ends, process)
  else
    redis.call('ZADD', procs, ends, process)
  end
end

-- stays returns for how many milliseconds the keys stay without a use: a week, and 32 days where
-- there is spend, because a month's counts until it ends.
local function stays()
  return redis.call('HGET', meta, 'spent') and 2764800000 or 604800000
end

-- touch puts off the end of the keys, once an hour. The common case of append has not all of them.
local function touch()
  if pools and now - tonumber(touched or 0) > 3600 * SECOND then
    redis.call('HSET', meta, 'touched', date)
    local ms = stays()
    for _, key in ipairs(KEYS) do
      redis.call('PEXPIRE', key, ms)
    end
  end
end

-- answer is the reply of all scripts, but for the common case of append.
local function answer(status, place, told, news)
  return {status, place, date, facts(), told, news}
end

local function replaced() return {REPLACED, 0, date, '', '', {}} end

-- renounce makes the log another one: events that somebody has seen are not there any more.
local function renounce()
  identity = string.match(identity, '^[^.]*') .. '.' .. date
  keep()
  return replaced()
end

