-- KEYS: how far a process is, and counters. ARGV: the number of its replay and of the piece of that,
-- milliseconds for which that is kept; then of each counter the units to add and its TTL in
-- milliseconds. Counts saturate.
local number, piece = tonumber(ARGV[1]), tonumber(ARGV[2])
local known, known_piece = 0, 0
local progress = redis.call('GET', KEYS[1])
if progress then
  known, known_piece = string.match(progress, '^(%d+) (%d+)$')
  known, known_piece = tonumber(known), tonumber(known_piece)
end
local again = number < known or number == known and piece <= known_piece
local counts = {}
for k = 2, #KEYS do
  local i = 4 + 2 * (k - 2)
  if not again and ARGV[i] ~= '0' then
    local count = redis.pcall('INCRBY', KEYS[k], ARGV[i])
    if type(count) == 'table' then
      redis.call('SET', KEYS[k], '9223372036854775807')
    end
    redis.call('PEXPIRE', KEYS[k], ARGV[i + 1])
  end
  counts[k - 1] = redis.call('GET', KEYS[k]) or '0'
end
if not again then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
end
return counts
