-- ARGV: identity, place and time of the last event that was seen, process, what the time should be,
-- lease in ms
local wanted, seen, stamp, me = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local expected, lease = tonumber(ARGV[5]), ARGV[6]
