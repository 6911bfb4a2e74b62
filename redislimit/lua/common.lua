-- Numbers are whole and below 2^53, so that they are exact as the doubles of Lua. Instants are
-- microseconds of the server's clock. What is to be there for a time has a TTL of a millisecond
-- more, lest it ends within the last one.
--
-- Each kind of limiter has a function of a key, an index i of ARGV at which its arguments are, and
-- whether to charge. It returns whether the units fit, a report of what was there before, and the
-- mark of a charge. It makes no closures: what the collector has to free costs as much as a command.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
