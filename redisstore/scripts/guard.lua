-- Programs of the layout before look into its keys only. They begin a log there unless all of them are
-- there, so that the guard is all of them, and a field of the days that those programs fail to read: they
-- tell it in their error.
local LATER = '\0(the store is of a later version of go-ratelimit, which keeps it elsewhere: update this program)'

-- expire has a key end after so many milliseconds; '0' is never.
local function expire(key, ms)
  if ms == '0' then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, ms)
  end
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
