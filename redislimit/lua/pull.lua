-- ARGV: the epoch and the place of a cursor, how many rows at most. The answer is the next cursor,
-- and names and counts of rows.
forget(tonumber(ARGV[3]))
local epoch = redis.call('HGET', meta, 'epoch')
if not epoch then return {'', '0'} end
local after = ARGV[2]
if epoch ~= ARGV[1] then after = '0' end
local answer = {epoch, after}
local rows = redis.call('ZRANGEBYSCORE', raised, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
for i = 1, #rows, 2 do
  answer[#answer + 1] = rows[i]
  answer[#answer + 1] = redis.call('HGET', counts, rows[i]) or '0'
  answer[2] = text(tonumber(rows[i + 1]))
end
return answer
