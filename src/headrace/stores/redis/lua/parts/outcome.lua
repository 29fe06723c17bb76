-- Outcome: what follows when a delivery ends. Its job waits again (requeue), has ended (finish) or dies (kill).
--
-- uses  json, numbers, job_codec, journal, notify, live_jobs, finished_jobs, blocked_jobs, death
--
-- `members` are the JSON members of the delivery's journal line so far; a blocked job of the id is applied or released.

local outcome = {}

local EVENTS = { d = 'done', c = 'cancelled' }

-- Let the job wait again; `packed` has its new time and counts. Returns the body as it is stored.
local function requeue(s, id, packed, event, members)
  local blocked_job = blocked_jobs.get(s, id)
  local error_members = ''
  if event == 'retried' then
    local _, class, message = job_codec.error(packed)
    error_members = journal.error_members(class, message)
  end
  journal.add_line(s, '{"event":"' .. event .. '",' .. members
    .. journal.count_members(packed)
    .. ',"run_at_ms":' .. numbers.text(job_codec.run_at(packed)) .. error_members .. '}')
  live_jobs.drop_lease(s, id)
  if blocked_job then
    s.blocked[id] = false
    packed = blocked_jobs.apply(blocked_job, packed)
  end
  live_jobs.add(s, id, packed)
  if blocked_job then
    journal.add_job_line(s, 'merged', id, packed)
  end
  return packed
end
outcome.requeue = requeue

-- End the job, done ('d') or cancelled ('c'). `head` may be a whole body.
local function finish(s, id, head, state, result, members)
  live_jobs.drop_lease(s, id)
  s.bodies[id] = false
  finished_jobs.put(s, id, head, state, result)
  notify.note_end(s, id)
  journal.add_line(s, '{"event":"' .. EVENTS[state] .. '",' .. members .. journal.count_members(head) .. '}')
  blocked_jobs.release(s, id)
end
outcome.finish = finish

-- Let the job die; returns the number of its dead letter.
local function kill(s, id, packed, reason, class, message, members)
  live_jobs.drop_lease(s, id)
  s.bodies[id] = false
  local number = death.record(s, id, packed, reason, class, message, members .. journal.count_members(packed))
  blocked_jobs.release(s, id)
  return number
end

local function backoff(attempts, backoff_ms, backoff_ms_max, jitter_ppm)
  local _, bits = math.frexp(backoff_ms_max)
  local full = math.min(backoff_ms * 2 ^ math.min(math.max(attempts - 1, 0), bits), backoff_ms_max)
  -- In two parts, since a year times a million is beyond what a double holds exactly.
  local millions = floor(full / LIMITS.jitter_ppm)
  return millions * jitter_ppm + floor((full - millions * LIMITS.jitter_ppm) * jitter_ppm / LIMITS.jitter_ppm)
end

-- A failed attempt that is final: the job dies. Returns the number of its dead letter.
function outcome.fail(s, id, packed, class, message, members)
  return kill(s, id, job_codec.with_failure(packed, 1, 0, s.now, class, message), 'failed', class, message, members)
end

-- A failed attempt: returns 'R' and the new run_at, 'X' and the number of the dead letter, or 'C'.
function outcome.retry(s, id, packed, is_cancel_requested, delay, jitter_ppm, class, message, members)
  local failed, cfg = job_codec.with_failure(packed, 1, 0, s.now, class, message), s.cfg
  if is_cancel_requested then
    finish(s, id, job_codec.head(failed), 'c', nil, members)
    return 'C'
  end
  local attempts = job_codec.counts(failed)
  if attempts >= job_codec.policy_in_force(packed, 'max_attempts', cfg) then
    return 'X', kill(s, id, failed, 'attempts', class, message, members)
  end
  if not delay then
    local backoff_ms = job_codec.policy_in_force(packed, 'backoff_ms', cfg)
    delay = backoff(attempts, backoff_ms, job_codec.policy_in_force(packed, 'backoff_ms_max', cfg), jitter_ppm)
  end
  failed = requeue(s, id, job_codec.with_run_at(failed, s.now + delay), 'retried', members)
  return 'R', job_codec.run_at(failed)
end

-- A delivery that the worker gives back: returns 'L' and the new run_at, or 'C'.
function outcome.release(s, id, packed, is_cancel_requested, delay, members)
  if is_cancel_requested then
    finish(s, id, job_codec.head(packed), 'c', nil, members)
    return 'C'
  end
  return 'L', job_codec.run_at(requeue(s, id, job_codec.with_run_at(packed, s.now + delay), 'released', members))
end

-- The JSON members that a worker would have sent if it had settled the delivery itself.
local function stall_members(s, id, packed, delivery)
  local waited = math.max(delivery.claimed_at - job_codec.due_since(packed), 0)
  return journal.job_members(id, packed, s.cfg)
    .. ',"fence":' .. numbers.text(delivery.fence)
    .. (delivery.worker == s.worker and '' or ',"worker":' .. json.quote(delivery.worker))
    .. ',"enqueued_at_ms":' .. numbers.text(job_codec.enqueued_at(packed))
    .. ',"wait_ms":' .. numbers.text(waited)
    .. ',"run_ms":' .. numbers.text(math.max(s.now - delivery.claimed_at, 0))
end

-- A delivery whose lease has expired: the job is due at once, unless it was to be cancelled or has stalled too often.
function outcome.stall(s, id, packed, delivery)
  local members = stall_members(s, id, packed, delivery)
  local stalled = job_codec.with_failure(packed, 0, 1, s.now, STALLED.class, STALLED.message)
  local _, stalls = job_codec.counts(stalled)
  if delivery.is_cancel_requested then
    finish(s, id, job_codec.head(stalled), 'c', nil, members)
  elseif stalls >= job_codec.policy_in_force(packed, 'max_stalls', s.cfg) then
    kill(s, id, stalled, 'stalls', STALLED.class, STALLED.message, members)
  else
    requeue(s, id, job_codec.with_run_at(stalled, s.now), 'stalled', members)
  end
end

return outcome
