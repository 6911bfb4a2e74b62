-- ARGV goes on with: the identity of a new log, span, whether a new log counts as used (0, 1, or 2 if
-- the server has a part of one and nobody lives who knows the rest), and whether this limiter has not
-- joined before
--
-- A log of a version that does not know found, spend or pools gets another identity, so that the limiters
-- of that version which follow it read everything again, and find LATER.
if identity and not complete and redis.call('EXISTS', unpack(KEYS, 1, 8)) == 8 and not redis.call('HGET', days, LATER) then
  redis.call('HSET', found, EMPTY, '')
  redis.call('HSET', spend, EMPTY, '')
  redis.call('HSET', pools, EMPTY, '')
  redis.call('HSET', days, LATER, '')
  identity, complete, touched = string.match(identity, '^[^.]*') .. '.' .. date, true, 0
end
if not identity or not complete then
  local is_used = ARGV[9] == '1' or ARGV[9] == '2' and redis.call('EXISTS', unpack(KEYS)) > 0 and
    redis.call('ZCOUNT', procs, text(now / 1000), '+inf') == 0
  for _, key in ipairs(KEYS) do
    redis.call('UNLINK', key)
  end
  last, at, folded, line, identity, touched = 0, 0, 0, '', ARGV[7], 0
  redis.call('HSET', meta, 'touched', '0', 'span', '0', 'used', is_used and date or '0')
  redis.call('XADD', log, '0-1', 'e', '')
  redis.call('XDEL', log, '0-1')
  for _, key in ipairs({days, quotas, cooldowns, answers, holes, found, spend, pools}) do
    redis.call('HSET', key, EMPTY, '')
  end
  redis.call('HSET', days, LATER, '')
  redis.call('ZADD', procs, 0, '')
end
keep()
if ARGV[10] == '1' then
  redis.call('HDEL', meta, 'd:' .. me)
end
local span, used = unpack(redis.call('HMGET', meta, 'span', 'used'))
if tonumber(ARGV[8]) > tonumber(span) then
  span = ARGV[8]
  redis.call('HSET', meta, 'span', ARGV[8])
end
if lease ~= '0' then
  renew(me, tonumber(lease))
end
touch()
return answer(OK, last, span .. ' ' .. used, {})
