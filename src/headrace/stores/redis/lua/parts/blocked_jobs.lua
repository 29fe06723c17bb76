-- Blocked jobs: what was enqueued for an id while that id was active.
--
-- Packed: flags 1 (1 payload, 2 policy, 4 counts) · lowest time plus one 6 · highest time 6 · body.

local blocked_jobs = {}

local UNBOUNDED_LO, UNBOUNDED_HI = -1, 253402300800000
local BODY_AT = 14

-- The time that holds after an enqueue: 'a' always, 'l' if later, 'e' if earlier, 'n' never.
function blocked_jobs.merged_time(flag, old, new)
  if flag == 'a' then
    return new
  elseif flag == 'l' then
    return new > old and new or old
  elseif flag == 'e' then
    return new < old and new or old
  end
  return old
end

-- The blocked job of an id as it stands in this call; false when there is none.
function blocked_jobs.get(s, id)
  local packed = s.T[id]
  if packed ~= nil then
    return packed
  end
  if s.has_blocked_jobs == nil then
    s.has_blocked_jobs = s.head.blocked > 0
  end
  return s.has_blocked_jobs and call('HGET', s.names.t, id)
end

function blocked_jobs.body(packed)
  return sub(packed, BODY_AT)
end

-- The blocked job after a job was enqueued behind an active one of its id; `steer` says what it updates.
function blocked_jobs.block(old, new, steer, due)
  local flags, lo, hi, record = 0, UNBOUNDED_LO, UNBOUNDED_HI, new
  if old then
    flags, lo, hi = cut('>BI6I6', old)
    lo, record = lo - 1, blocked_jobs.body(old)
    local run_at = blocked_jobs.merged_time(steer.time, body.run_at(record), due)
    record = body.updated(record, new, run_at, steer.payload, steer.policy, steer.reset)
  end
  local payload = steer.payload or flags % 2 >= 1
  local policy = steer.policy or flags % 4 >= 2
  local reset = steer.reset or flags >= 4
  return pack(
    '>BI6I6',
    (payload and 1 or 0) + (policy and 2 or 0) + (reset and 4 or 0),
    blocked_jobs.merged_time(steer.time, lo, due) + 1,
    blocked_jobs.merged_time(steer.time, hi, due)
  ) .. record
end

-- The body that waits again when the active job was retried, released or stalled.
function blocked_jobs.applied(blocked_job, packed)
  local flags, lo, hi = cut('>BI6I6', blocked_job)
  local run_at = body.run_at(packed)
  run_at = run_at < lo - 1 and lo - 1 or run_at
  run_at = run_at > hi and hi or run_at
  return body.updated(packed, blocked_jobs.body(blocked_job), run_at, flags % 2 >= 1, flags % 4 >= 2, flags >= 4)
end

-- Let the blocked job of a job that is over wait on its own.
function blocked_jobs.free(s, id)
  local blocked_job = blocked_jobs.get(s, id)
  if blocked_job then
    local packed = blocked_jobs.body(blocked_job)
    s.T[id] = false
    s.head.freed = 1
    waiting.wait(s, id, packed)
    journal.waits(s, 'unblocked', id, packed)
  end
end
