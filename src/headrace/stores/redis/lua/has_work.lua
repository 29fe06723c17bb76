-- Whether a claim would find something to hand out, to promote or to repair.
--
-- keys     the `m` keys of shards
-- args     now_ms or ''; the number of shards for each key
-- answers  1 if so, else 0
-- flags    no-writes
local function is_due(key, now)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) <= now
end

local function has_work(s, now)
  local named = s.names
  return is_due(named.x, now) or not s.cfg.paused and (call('ZCARD', named.r) > 0 or is_due(named.l, now))
end

local function run(keys, args)
  local now = shard.now(args[1])
  local found, refused = shard.look(keys, slice(args, 2, #args), now)
  if refused then
    return refused
  end
  for _, s in ipairs(found) do
    if s and has_work(s, now) then
      return 1
    end
  end
  return 0
end
