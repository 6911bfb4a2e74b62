-- effects_of returns what an event may change beside the log and the days, by letters.
local function effects_of()
  local function forget_all(key)
    redis.call('UNLINK', key)
    redis.call('HSET', key, EMPTY, '')
    if key == days then
      redis.call('HSET', key, LATER, '', NEWER, '')
    end
    redis.call('PEXPIRE', key, 604800000)
  end

  return {
    q = function(field, arg) redis.call('HSET', quotas, field, arg) end,
    Q = function(field) redis.call('HDEL', quotas, field) end,
    a = function(model, arg) redis.call('HSET', answers, model, arg) end,
    f = function(model, arg) redis.call('HSET', found, model, arg) end,
    p = function(pool, arg) redis.call('HSET', pools, pool, arg) end,
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

