-- ARGV goes on with: what the head begins with, the places of the first and the last event, the
-- shift, the entry, what its events add to days, the number of fields of effects, these, and days.
--
-- The common case: the head is the one that the process expects, so that nobody has written since,
-- waits for a turn or has another log. A process that knows of anything else to do leaves ARGV[9]
-- empty.
if ARGV[9] ~= '' and redis.call('HGET', KEYS[2], 'head') == ARGV[9] .. ARGV[2] .. ' ' .. ARGV[3] then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2] + ARGV[12]
  if now - ARGV[3] >= 0 and math.abs(now - ARGV[6]) <= 1000000 then
    if ARGV[13] == '' then
      return now
    end
    local complete, date = true, string.format('%.0f', now)
    if ARGV[16] and redis.call('HSET', KEYS[3], unpack(ARGV, 16)) > 0 and not redis.call('HGET', KEYS[3], '\0') then
      redis.call('UNLINK', KEYS[3]) -- the server has evicted it
      complete = false
    end
    if complete and redis.call('XADD', KEYS[1], 'NOMKSTREAM', ARGV[10] .. '-' .. date, 'e', ARGV[13]) then
      redis.call('HSET', KEYS[2], 'head', ARGV[9] .. ARGV[11] .. ' ' .. date,
        'd:' .. ARGV[4], ARGV[8] .. ' ' .. ARGV[10] .. ' ' .. date)
      return now
    end
  end
end
