-- KEYS: the meta data of the exchange, the count of each row, the rows in the order in which they
-- were raised, and when they end. A server that has lost one of them has lost all.
local meta, counts, raised, ends = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local clock = redis.call('TIME')
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function text(n) return string.format('%.0f', n) end

-- forget removes rows that have ended, up to most.
local function forget(most)
  local ended = redis.call('ZRANGEBYSCORE', ends, '-inf', text(ms), 'LIMIT', 0, most)
  for _, row in ipairs(ended) do
    redis.call('HDEL', counts, row)
    redis.call('ZREM', raised, row)
    redis.call('ZREM', ends, row)
  end
end
