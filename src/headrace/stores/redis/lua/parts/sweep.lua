-- Sweeps: what is dropped because its time is over, in bounded steps.

local sweeping = {}

-- Drop idempotency keys; says how many.
function sweeping.keys(s)
  local over = call('ZRANGE', s.names.kx, '-inf', s.now, 'BYSCORE', 'LIMIT', 0, LIMITS.sweep)
  waiting.each_chunk('ZREM', s.names.kx, over, #over)
  waiting.each_chunk('HDEL', s.names.k, over, #over)
  return #over
end

local function sweep_workers(s)
  local before = s.now - LIMITS.worker_keep_ms
  local over = call('ZRANGE', s.names.ws, '-inf', before, 'BYSCORE', 'LIMIT', 0, LIMITS.sweep)
  waiting.each_chunk('ZREM', s.names.ws, over, #over)
  waiting.each_chunk('HDEL', s.names.w, over, #over)
  return #over
end

-- Repair and drop on one shard: how many leases had run out, how many things were dropped, whether a bound was reached,
-- whether a death made its fail queue.
function sweeping.all(s, limit)
  local stalled = handing.repair(s, limit)
  local dead_letters_dropped = dead_letters.sweep(s, LIMITS.sweep)
  local trimmed = journal.trim(s, LIMITS.sweep)
  finish(s)
  local dropped = { finished_job.sweep(s), sweeping.keys(s), dead_letters_dropped, sweep_workers(s), trimmed }
  local sum, most = 0, 0
  for _, number in ipairs(dropped) do
    sum, most = sum + number, math.max(most, number)
  end
  shard.save(s)
  return { stalled, sum, (stalled == limit or most >= LIMITS.sweep) and 1 or 0, s.made and 1 or 0 }
end
