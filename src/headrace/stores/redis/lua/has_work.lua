-- Whether a claim would hand out, promote or repair something.
--
-- uses     shard
-- keys     the `m` keys of shards
-- args     now_ms or ''; the number of shards for each key
-- answers  1 if so, else 0
-- flags    no-writes
local function is_due(key, now)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) <= now
end

local function has_work(s, now)
  local names = s.names
  return is_due(names.leases, now) or not s.cfg.paused and (call('ZCARD', names.ready) > 0 or is_due(names.later, now))
end

local function run(keys, args)
  local now = shard.now(args[1])
  local found, refusal = shard.read(keys, slice(args, 2, #args), now)
  if refusal then
    return refusal
  end
  for _, s in ipairs(found) do
    if s and has_work(s, now) then
      return 1
    end
  end
  return 0
end
