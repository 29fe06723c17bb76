-- Blocked twins: what was enqueued for an id while that id was active.
--
-- Packed: flags 1 (1 payload, 2 policy, 4 counts) · lowest time plus one 6 · highest time 6 · body.

local twins = {}

local UNBOUNDED_LO, UNBOUNDED_HI = -1, 253402300800000
local BODY_AT = 14

-- The time that holds after an enqueue: 'a' always, 'l' if later, 'e' if earlier, 'n' never.
function twins.merged_time(flag, old, new)
  if flag == 'a' then
    return new
  elseif flag == 'l' then
    return new > old and new or old
  elseif flag == 'e' then
    return new < old and new or old
  end
  return old
end

-- The twin of an id as it stands in this call; false when there is none.
function twins.get(s, id)
  local packed = s.T[id]
  if packed ~= nil then
    return packed
  end
  if s.has_twins == nil then
    s.has_twins = s.head.blocked > 0
  end
  return s.has_twins and call('HGET', s.names.t, id)
end

function twins.body(packed)
  return sub(packed, BODY_AT)
end

-- The twin after a job was enqueued behind an active one of its id; `steer` says what it updates.
function twins.block(old, new, steer, due)
  local flags, lo, hi, record = 0, UNBOUNDED_LO, UNBOUNDED_HI, new
  if old then
    flags, lo, hi = cut('>BI6I6', old)
    lo, record = lo - 1, twins.body(old)
    local run_at = twins.merged_time(steer.time, body.run_at(record), due)
    record = body.updated(record, new, run_at, steer.payload, steer.policy, steer.reset)
  end
  local payload = steer.payload or flags % 2 >= 1
  local policy = steer.policy or flags % 4 >= 2
  local reset = steer.reset or flags >= 4
  return pack(
    '>BI6I6',
    (payload and 1 or 0) + (policy and 2 or 0) + (reset and 4 or 0),
    twins.merged_time(steer.time, lo, due) + 1,
    twins.merged_time(steer.time, hi, due)
  ) .. record
end

-- The body that waits again when the active job was retried, released or stalled.
function twins.applied(twin, packed)
  local flags, lo, hi = cut('>BI6I6', twin)
  local run_at = body.run_at(packed)
  run_at = run_at < lo - 1 and lo - 1 or run_at
  run_at = run_at > hi and hi or run_at
  return body.updated(packed, twins.body(twin), run_at, flags % 2 >= 1, flags % 4 >= 2, flags >= 4)
end

-- Let the twin of a job that is over wait on its own.
function twins.free(s, id)
  local twin = twins.get(s, id)
  if twin then
    local packed = twins.body(twin)
    s.T[id] = false
    s.head.freed = 1
    waiting.wait(s, id, packed)
    journal.waits(s, 'unblocked', id, packed)
  end
end
