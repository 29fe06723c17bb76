-- Sweep: drop what has expired, a bounded number of each kind in a call.
--
-- uses  chunked, journal, shard, finished_jobs, dead_letters, step, claim

local sweep = {}

-- Drop the expired ones among values that stand in a sorted set by time, and in a hash; returns how many.
local function drop_until(order, hash, until_ms)
  local expired = call('ZRANGE', order, '-inf', until_ms, 'BYSCORE', 'LIMIT', 0, LIMITS.sweep_per_call_max)
  chunked.run('ZREM', order, expired, #expired)
  chunked.run('HDEL', hash, expired, #expired)
  return #expired
end

-- Drop expired idempotency keys; returns how many.
function sweep.drop_idempotency_keys(s)
  return drop_until(s.names.idempotency_ends, s.names.idempotency_keys, s.now)
end

-- Repair leases and drop what has expired on one shard: how many leases had expired, how many records were dropped, 1
-- when a bound was reached, 1 when a death created the fail queue.
function sweep.sweep_shard(s, limit)
  local stalled = claim.repair(s, limit)
  local dead_letters_dropped = dead_letters.sweep(s, LIMITS.sweep_per_call_max)
  local trimmed = journal.trim(s, LIMITS.sweep_per_call_max)
  step.commit(s)
  local finished_dropped, keys_dropped = finished_jobs.sweep(s), sweep.drop_idempotency_keys(s)
  local workers_dropped = drop_until(s.names.workers_seen, s.names.workers, s.now - LIMITS.worker_keep_ms)
  local dropped = { finished_dropped, keys_dropped, dead_letters_dropped, workers_dropped, trimmed }
  local sum, most = 0, 0
  for _, number in ipairs(dropped) do
    sum, most = sum + number, math.max(most, number)
  end
  shard.save(s)
  local is_bounded = stalled == limit or most >= LIMITS.sweep_per_call_max
  return { stalled, sum, is_bounded and 1 or 0, s.has_created_fail_queue and 1 or 0 }
end

return sweep
