-- How many jobs stand where.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; then 0 per shard
-- answers  per shard: nil for one that is not there, else waiting, later, blocked, active, done, cancelled, dead, and since
--          when the first in line of some priority has been due, or nil
-- flags    no-writes
local function oldest_due(named, now)
  local oldest = false
  local function take(ids)
    local packed = ids[1] and call('HGET', named.b, ids[1])
    local since = packed and body.due_since(packed)
    if since and (not oldest or since < oldest) then
      oldest = since
    end
  end
  if call('ZCARD', named.r) > 0 then
    for rank = 0, 9 do
      local first, next = format('%.0f', rank * 2 ^ 48), format('(%.0f', (rank + 1) * 2 ^ 48)
      take(call('ZRANGE', named.r, first, next, 'BYSCORE', 'LIMIT', 0, 1))
    end
  end
  take(call('ZRANGE', named.l, '-inf', body.text(now), 'BYSCORE', 'LIMIT', 0, 1))
  return oldest and body.text(oldest)
end

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refused = shard.look(keys, args[1], now)
  if refused then
    return refused
  end
  local answers = {}
  for index, s in ipairs(found) do
    local named = s and s.names
    answers[index] = s and {
      call('ZCARD', named.r) + call('ZCARD', named.l),
      call('ZCARD', named.l),
      call('HLEN', named.t),
      call('ZCARD', named.x),
      s.head.done,
      s.head.cancelled,
      call('HLEN', named.d),
      oldest_due(named, now),
    }
  end
  return answers
end
