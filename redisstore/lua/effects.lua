-- effects_of returns what an event may change beside the log and the days, by letters.
local function effects_of()
  local function forget_all(key)
    redis.call('UNLINK', key)
    redis.call('HSET', key, EMPTY, '')
    if key == days then
      redis.call('HSET', key, LATER, '')
    end
    redis.call('PEXPIRE', key, stays())
  end

  -- add is SpendPeriod.add: the period and the amount after a change of both.
  local function add(was, spent, is, more)
    local begin, ends = string.sub(was, 1, 8), string.sub(was, 9)
    if begin == ends or not before(is, ends) then
      return is, plus('0', more)
    elseif not before(begin, string.sub(is, 9)) then
      return was, spent
    elseif spent == '0' then
      return is, plus('0', more)
    elseif not before(begin, is) then
      was = is
    end
    if spent ~= '9223372036854775807' then
      spent = plus(spent, more)
    end
    return was, spent
  end

  return {
    q = function(field, arg) redis.call('HSET', quotas, field, arg) end,
    Q = function(field) redis.call('HDEL', quotas, field) end,
    a = function(model, arg) redis.call('HSET', answers, model, arg) end,
    f = function(model, arg) redis.call('HSET', found, model, arg) end,
    p = function(pool, arg) redis.call('HSET', pools, pool, arg) end,
    -- The value tells the last event that is in it: whoever reads the events, too, must not add
    -- one twice.
    s = function(account, arg, first)
      local was = redis.call('HGET', spend, account)
      if not was then
        redis.call('HSET', meta, 'spent', '1')
        was, touched = string.rep('\128\0\0\0\0\0\0\0', 4) .. '0 0 ', 0
      end
      local day, month = string.match(was, '^(%d+) (%d+) ', 33)
      local more_today, more, i = string.match(arg, '^(%S+) (%S+) (%d+)$', 33)
      local today, calendar
      today, day = add(string.sub(was, 1, 16), day, string.sub(arg, 1, 16), more_today)
      calendar, month = add(string.sub(was, 17, 32), month, string.sub(arg, 17, 32), more)
      redis.call('HSET', spend, account, today .. calendar .. day .. ' ' .. month .. ' ' .. text(first + i))
    end,
    c = function(model, arg)
      local was = redis.call('HGET', cooldowns, model)
      if not was or before(was, arg) then
        redis.call('HSET', cooldowns, model, arg)
      end
    end,
    x = function(model) redis.call('HDEL', cooldowns, model) end,
    r = function(model)
      redis.call('HDEL', days, model)
      redis.call('HDEL', cooldowns, model)
    end,
    R = function()
      forget_all(days)
      forget_all(cooldowns)
    end,
    g = function(process)
      redis.call('ZREM', procs, process)
      redis.call('HDEL', meta, 'd:' .. process)
    end,
    v = function(process, ms) renew(process, tonumber(ms), 'NX') end,
  }
end

