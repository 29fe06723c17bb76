-- State counts: how many jobs of a shard are in each state, from counters and the sizes of keys.
--
-- uses  numbers, job_codec

local state_counts = {}

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

-- Waiting, later, blocked, active, done, cancelled, dead, and since when the oldest one among the first jobs of each
-- priority has been due, or false.
function state_counts.of(s)
  local names = s.names
  local later = call('ZCARD', names.later)
  return {
    call('ZCARD', names.ready) + later,
    later,
    call('HLEN', names.blocked),
    call('ZCARD', names.leases),
    s.counters.done,
    s.counters.cancelled,
    call('HLEN', names.dead_letters),
    oldest_due(names, s.now),
  }
end

return state_counts
