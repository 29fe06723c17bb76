-- Live jobs: jobs that wait or are active. A call collects its decisions by job id and writes them in a few commands.
--
-- uses  job_codec, chunked, notify
--
-- In the tables s.bodies, s.ready, s.later, s.leases, s.deliveries and s.blocked a value is to be set and false is to
-- be dropped. Ready jobs are ordered by their order key: the tier of the priority, plus a number that only grows.

local live_jobs = {}

local NONE = {}

-- The order key of a job behind all others of its priority.
function live_jobs.next_order_key(s, packed)
  local number = s.counters.number + 1
  s.counters.number = number
  return (PRIORITY_MAX - job_codec.priority(packed, s.cfg)) * TIER + number
end

-- The order key of a job that keeps its number under the priority that it has now.
function live_jobs.moved_order_key(s, packed, order_key)
  return (PRIORITY_MAX - job_codec.priority(packed, s.cfg)) * TIER + order_key % TIER
end

-- Let a job that is in no index wait: ready when it is due, later otherwise.
function live_jobs.add(s, id, packed)
  local run_at = job_codec.run_at(packed)
  s.bodies[id] = packed
  if run_at <= s.now then
    s.ready[id] = live_jobs.next_order_key(s, packed)
  else
    s.later[id] = run_at
  end
  s.has_new_work = true
end

-- Change a waiting job; without an order key it is due later.
function live_jobs.change(s, id, packed, order_key)
  s.bodies[id] = packed
  s.ready[id], s.later[id] = order_key or false, not order_key and job_codec.run_at(packed)
  s.has_new_work = true
end

-- Drop a waiting job.
function live_jobs.drop(s, id)
  s.bodies[id], s.ready[id], s.later[id] = false, false, false
end

-- Drop the lease of a job, also a lease that this call has granted.
function live_jobs.drop_lease(s, id)
  s.leases[id], s.deliveries[id] = false, false
  for i, claimed_id in ipairs(s.claimed_ids or NONE) do
    if claimed_id == id then
      table.remove(s.claimed_ids, i)
      for _ = 1, 2 do
        table.remove(s.claimed_leases, i * 2 - 1)
        table.remove(s.claimed_deliveries, i * 2 - 1)
      end
      s.ready[id] = s.ready[id] or false
      return
    end
  end
end

-- Remember a missing record: 'b' a body, 'a' a delivery, 'd' a dead letter. The call continues without it.
function live_jobs.quarantine(s, kind, id)
  s.quarantined = s.quarantined or {}
  s.quarantined[#s.quarantined + 1] = kind .. ' ' .. id
end

-- The body of a job after the decisions of this call so far; false when there is none.
function live_jobs.get_body(s, id)
  local packed = s.bodies[id]
  if packed == nil then
    packed = call('HGET', s.names.bodies, id)
  end
  return packed
end

-- The delivery of a job after the decisions of this call so far; false when it is not active.
function live_jobs.get_delivery(s, id)
  local packed = s.deliveries[id]
  if packed == nil then
    packed = call('HGET', s.names.deliveries, id)
  end
  return packed
end

-- How many jobs wait or are blocked.
function live_jobs.count_waiting(s)
  s.ready_count = call('ZCARD', s.names.ready)
  return s.ready_count + call('ZCARD', s.names.later) + s.counters.blocked
end

local function drop_fields(command, key, changes)
  if next(changes) == nil then
    return 0
  end
  local flat, n = {}, 0
  for id, value in pairs(changes) do
    if not value then
      n = n + 1
      flat[n] = id
    end
  end
  return chunked.run(command, key, flat, n)
end

local function set_hash(key, changes)
  if next(changes) == nil then
    return 0
  end
  local flat, n = {}, 0
  for id, value in pairs(changes) do
    if value then
      flat[n + 1], flat[n + 2] = id, value
      n = n + 2
    end
  end
  return chunked.run('HSET', key, flat, n)
end

local function set_scores(key, changes)
  if next(changes) == nil then
    return
  end
  local flat, n = {}, 0
  for id, score in pairs(changes) do
    if score then
      flat[n + 1], flat[n + 2] = score, id
      n = n + 2
    end
  end
  chunked.run('ZADD', key, flat, n)
end

local function lowest_score(changes)
  local least
  for _, score in pairs(changes) do
    if score and (not least or score < least) then
      least = score
    end
  end
  return least
end

-- Whether to wake workers: a job is ready where none was, or is due before all others.
local function must_wake_workers(s)
  if not s.has_new_work then
    return false
  end
  if (s.new_order_keys or lowest_score(s.ready)) and (s.ready_count or call('ZCARD', s.names.ready)) == 0 then
    return true
  end
  local due = lowest_score(s.later)
  if not due then
    return false
  end
  local first = call('ZRANGE', s.names.later, 0, 0, 'WITHSCORES')
  return not first[2] or due < tonumber(first[2])
end

-- Write the lists that enqueue and settle make of nearly all jobs of a batch. They come before the other decisions,
-- which may be about the same ids.
local function write_lists(s)
  local names = s.names
  if s.new_bodies then
    chunked.run('HSET', names.bodies, s.new_bodies, #s.new_bodies)
    chunked.run('ZADD', names.ready, s.new_order_keys, #s.new_order_keys)
    s.new_bodies, s.new_order_keys = nil, nil
  end
  if s.done_ids then
    chunked.run('ZREM', names.leases, s.done_ids, #s.done_ids)
    chunked.run('HDEL', names.deliveries, s.done_ids, #s.done_ids)
    chunked.run('HDEL', names.bodies, s.done_ids, #s.done_ids)
    s.done_ids = nil
  end
end

-- Write the claimed jobs; last, since a job may be repaired and claimed in one call.
local function write_claims(s)
  local names = s.names
  if s.claimed_ids then
    chunked.run('ZREM', names.ready, s.claimed_ids, #s.claimed_ids)
    chunked.run('ZADD', names.leases, s.claimed_leases, #s.claimed_leases)
    chunked.run('HSET', names.deliveries, s.claimed_deliveries, #s.claimed_deliveries)
    s.claimed_ids, s.claimed_leases, s.claimed_deliveries = nil, nil, nil
  end
end

-- Write the decisions by id. Drops come before sets, since a job may leave an index and come back in one call.
local function write_changes(s)
  local names, counters = s.names, s.counters
  drop_fields('ZREM', names.ready, s.ready)
  drop_fields('ZREM', names.later, s.later)
  drop_fields('ZREM', names.leases, s.leases)
  drop_fields('HDEL', names.deliveries, s.deliveries)
  drop_fields('HDEL', names.bodies, s.bodies)
  counters.blocked = counters.blocked - drop_fields('HDEL', names.blocked, s.blocked)
  set_hash(names.bodies, s.bodies)
  set_hash(names.deliveries, s.deliveries)
  counters.blocked = counters.blocked + set_hash(names.blocked, s.blocked)
  set_scores(names.ready, s.ready)
  set_scores(names.later, s.later)
  set_scores(names.leases, s.leases)
  s.bodies, s.ready, s.later, s.leases, s.deliveries, s.blocked = {}, {}, {}, {}, {}, {}
end

-- Write all decisions of a call about live jobs, and wake workers.
function live_jobs.write(s)
  local names = s.names
  local must_wake = must_wake_workers(s)
  write_lists(s)
  if next(s.bodies) or next(s.ready) or next(s.later) or next(s.leases) or next(s.deliveries) or next(s.blocked) then
    write_changes(s)
  end
  write_claims(s)
  if s.quarantined then
    chunked.run('LPUSH', names.quarantine, s.quarantined, #s.quarantined)
    call('LTRIM', names.quarantine, 0, LIMITS.quarantine_max - 1)
  end
  s.quarantined, s.has_new_work, s.ready_count = nil, false, nil
  if must_wake then
    notify.publish(names.channel, '')
  end
end

return live_jobs
