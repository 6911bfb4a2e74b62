-- KEYS: log, meta, end, the pieces of the image; and those of the layout before, to begin a log. ARGV: the
-- place of the image, how many pieces, how many bytes, for how many milliseconds to keep it (0: for ever),
-- and, to begin a log with it, the log in whose place, and the head of the log of the layout before that
-- the image is of ('' for none). Returns a status.
local log, seq, low, hash = split(ARGV[1])
local old, head = ARGV[5], ARGV[6]
local meta = redis.call('HMGET', KEYS[2], 'log', 'seq', 'low', 'hash', 'iseq', 'ilow', 'ihash', 'image')
local base = {meta[2], meta[3], meta[4]}
if old then
  if meta[1] == log then
    return 'ok'
  end
  if (meta[1] or '0') ~= old or head ~= '' and redis.call('HGET', KEYS[6], 'head') ~= head then
    return 'lost'
  end
  if head ~= '' and lives(head, KEYS[11]) then -- a process that has joined since
    return 'lost'
  end
  base = {seq, low, hash}
else
  if meta[1] ~= log then
    return 'lost'
  end
  local newest = not place(meta[5], meta[6], meta[7], base)
  if newest and tonumber(seq) <= tonumber(meta[5]) then
    return 'older'
  end
  if place(seq, low, hash, base) then
    return 'lost'
  end
  if newest then -- or the log has lost its entry, and does not go on from it
    base = {meta[5], meta[6], meta[7]}
  end
end
if redis.call('LLEN', KEYS[4]) ~= tonumber(ARGV[2]) then
  return 'gone'
end
if meta[8] then
  redis.call('PEXPIRE', meta[8], 60000) -- somebody may be loading it
end
if old then
  redis.call('UNLINK', KEYS[1], KEYS[3])
  guard(5, ARGV[4])
end
redis.call('HSET', KEYS[2], 'log', log, 'seq', base[1], 'low', base[2], 'hash', base[3],
  'iseq', seq, 'ilow', low, 'ihash', hash, 'image', KEYS[4], 'pieces', ARGV[2], 'size', ARGV[3])
expire(KEYS[2], ARGV[4])
expire(KEYS[4], ARGV[4])
return 'ok'
