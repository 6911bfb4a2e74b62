-- KEYS: log, meta and days, or all
-- ARGV: the head as the process knows it, what the next head begins with, the shift, the time of the
-- last event, what the time should be, what the ID of the entry begins with, the field of meta that
-- tells of the process, what its value begins with, the entry, what else append has to know, and
-- pairs of fields and days
--
-- The common case: the head is the one that the process expects, so that nobody has written since,
-- waits for a turn or has another log. A process that knows of anything else to do says no head.
if redis.call('HGET', KEYS[2], 'head') == ARGV[1] then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2] + ARGV[3]
  if now - ARGV[4] >= 0 and math.abs(now - ARGV[5]) <= 1000000 then
    if ARGV[9] == '' then
      return now
    end
    local complete, date = true, string.format('%.0f', now)
    if ARGV[11] and redis.call('HSET', KEYS[3], unpack(ARGV, 11)) > 0 and not redis.call('HGET', KEYS[3], '\0') then
      redis.call('UNLINK', KEYS[3]) -- the server has evicted it
      complete = false
    end
    if complete and redis.call('XADD', KEYS[1], 'NOMKSTREAM', ARGV[6] .. date, 'e', ARGV[9]) then
      redis.call('HSET', KEYS[2], 'head', ARGV[2] .. date, ARGV[7], ARGV[8] .. date)
      return now
    end
  end
end

-- Otherwise effects come before the days.
local wanted, seen, stamp = string.match(ARGV[1], '^!?(%S+) %S+ %S+ %d (%S+) (%S+)$')
local me, expected = string.sub(ARGV[7], 3), tonumber(ARGV[5])
local mode, lease, fields, added = string.match(ARGV[10], '^(%a) (%d+) (%d+) (.*)$')
seen, stamp = tonumber(seen), tonumber(stamp)
