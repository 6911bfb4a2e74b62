-- Numbers are whole and below 2^53, so that they are exact as the doubles of Lua. Instants are
-- microseconds of the server's clock. What is to be there for a time has a TTL of a millisecond
-- more, lest it ends within the last one.
--
-- Each kind of limiter has a function of a key, and of an index i of ARGV at which its arguments
-- are. It returns whether the units fit, the state that was there, and what put has to write to
-- charge them, if there are any. It reads the state once, and formats no number that it has as a
-- text: a command or a format takes as long as all the rest.
--
-- An answer is 1 if all fit, else 0, the clock, and behind a line break the states, one a line. So
-- it tells Go all that a decision depends on. The record of an operation is its answer.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function text(n) return string.format('%.0f', n) end

-- instant is text(now) in a quarter of the time.
local function instant() return clock[1] .. string.sub('00000' .. clock[2], -6) end

-- put writes a state that ends in ttl milliseconds, or, without a ttl, when it would have ended.
local function put(key, value, ttl)
  if ttl then
    redis.call('PSETEX', key, ttl, value)
  else
    redis.call('SET', key, value, 'KEEPTTL')
  end
end
