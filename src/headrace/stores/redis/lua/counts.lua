-- How many jobs are in each state.
--
-- uses     numbers, job_codec, shard
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; then 0 per shard
-- answers  per shard: nil where it does not exist, else waiting, later, blocked, active, done, cancelled, dead, and
--          since when the oldest one among the first jobs of each priority has been due, or nil
-- flags    no-writes
local function oldest_due(names, now)
  local oldest = false
  local function compare(ids)
    local packed = ids[1] and call('HGET', names.bodies, ids[1])
    local since = packed and job_codec.due_since(packed)
    if since and (not oldest or since < oldest) then
      oldest = since
    end
  end
  if call('ZCARD', names.ready) > 0 then
    for tier = 0, PRIORITY_MAX do
      local first, next = format('%.0f', tier * TIER), format('(%.0f', (tier + 1) * TIER)
      compare(call('ZRANGE', names.ready, first, next, 'BYSCORE', 'LIMIT', 0, 1))
    end
  end
  compare(call('ZRANGE', names.later, '-inf', numbers.text(now), 'BYSCORE', 'LIMIT', 0, 1))
  return oldest and numbers.text(oldest)
end

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.read(keys, args[1], now)
  if refusal then
    return refusal
  end
  local answers = {}
  for index, s in ipairs(found) do
    local names = s and s.names
    answers[index] = s and {
      call('ZCARD', names.ready) + call('ZCARD', names.later),
      call('ZCARD', names.later),
      call('HLEN', names.blocked),
      call('ZCARD', names.leases),
      s.counters.done,
      s.counters.cancelled,
      call('HLEN', names.dead_letters),
      oldest_due(names, now),
    }
  end
  return answers
end
