-- Numbers are whole and below 2^53, so that they are exact as the doubles of Lua. Instants are
-- microseconds of the server's clock.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local decide = {} -- by kind: whether it fits, the report, what charges if that is any, and its mark

local function text(n) return string.format('%.0f', n) end

-- keep returns the TTL of what is to be there for a time: a millisecond more, lest it ends within
-- the last one.
local function keep(us) return math.ceil(us / 1000) + 1 end
