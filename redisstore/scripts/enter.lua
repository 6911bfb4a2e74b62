-- KEYS: those of the layout before. ARGV: for how many milliseconds to keep them (0: for ever). Where there
-- is a log of that layout, it returns 'lives' while a process uses it; else the time, whether all of its
-- keys are there, and of its meta the head, the span and since when it counts as used.
local ALL = '\0(the store is of a later version of go-ratelimit, update this program)'
local meta = redis.call('HMGET', KEYS[2], 'head', 'span', 'used')
local guards = string.sub(meta[1] or '', 1, 6) == 'later.' or redis.call('HGET', KEYS[3], LATER)
if redis.call('EXISTS', KEYS[2]) == 1 and not guards then
  if lives(meta[1] or '', KEYS[7]) then
    return 'lives'
  end
  local n = redis.call('HGET', KEYS[3], ALL) and #KEYS or 8 -- as the first versions had
  local whole = redis.call('EXISTS', unpack(KEYS, 1, n)) == n
  local time = redis.call('TIME')
  return {time[1] .. string.sub('00000' .. time[2], -6), whole and 1 or 0, meta[1], meta[2], meta[3]}
end
guard(1, ARGV[1])
return 'ok'
