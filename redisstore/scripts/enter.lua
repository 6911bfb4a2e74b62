-- KEYS: those of the layout before. ARGV: for how many milliseconds to keep them (0: for ever). Returns
-- 'former' where there is a log of that layout.
if redis.call('EXISTS', KEYS[2]) == 1 and not redis.call('HGET', KEYS[3], LATER) then
  return 'former'
end
guard(1, ARGV[1])
return 'ok'
