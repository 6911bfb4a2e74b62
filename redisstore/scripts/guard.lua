-- Programs of the layout before look into its keys only. They begin a log there unless all of them are
-- there, so that the guard is all of them, and a field of the days that those programs fail to read: they
-- tell it in their error. The server may evict some of it: the head and that field each tell a guard.
local LATER = '\0(the store is of a later version of go-ratelimit, which keeps it elsewhere: update this program)'

-- expire has a key end after so many milliseconds; '0' is never.
local function expire(key, ms)
  if ms == '0' then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, ms)
  end
end

-- lives reports whether a process uses the log of the layout before. The head has how far that log's time
-- is ahead of the server's, in microseconds; the processes have their leases, in its milliseconds.
local function lives(head, processes)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + time[2] / 1000 + (string.match(head, '^%S+ (%S+)') or 0) / 1000
  return redis.call('ZCOUNT', processes, string.format('%.0f', now), '+inf') > 0
end

-- guard keeps programs of the layout before out, whose keys are those of KEYS from one on.
local function guard(from, ms)
  local keys = {unpack(KEYS, from)}
  if redis.call('EXISTS', unpack(keys)) < #keys or not redis.call('HGET', keys[3], LATER) then
    local time = redis.call('TIME')
    redis.call('UNLINK', unpack(keys))
    for i, key in ipairs(keys) do
      if i == 7 then
        redis.call('ZADD', key, 0, '')
      else
        redis.call('HSET', key, '\0', '')
      end
    end
    redis.call('HSET', keys[2], 'head', 'later.' .. time[1] .. '.' .. time[2] .. ' 0 0 0 0 0', 'touched', '0', 'span', '0', 'used', '0')
    redis.call('HSET', keys[3], LATER, '')
  end
  for _, key in ipairs(keys) do
    expire(key, ms)
  end
end
