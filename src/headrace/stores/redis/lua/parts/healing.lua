-- Healing: one record that is not as it should be is put right. What is done is collected as in any other call.

local healing = {}

-- A command that must not come before the journal's entry: kept until the step was finished.
function healing.afterwards(s, ...)
  s.after = s.after or {}
  s.after[#s.after + 1] = { ... }
end

-- Tell that a job is gone of which nothing is known any more.
function healing.tell_lost(s, id)
  telling.note(s, id)
  journal.note(s, '{"event":"removed","id":' .. json.quote(id) .. ',"reason":"lost"}')
end

function healing.has_body(s, id)
  return call('HEXISTS', s.names.b, id) == 1
end

function healing.is_in_no_index(s, id)
  local named = s.names
  return call('HEXISTS', named.a, id) == 0
    and not (call('ZSCORE', named.r, id) or call('ZSCORE', named.l, id) or call('ZSCORE', named.x, id))
end

-- Let a job that is in no index wait again, uncharged. One that was active comes back with its event, and its blocked job on top.
function healing.let_wait(s, id, was_active)
  local packed = waiting.body(s, id)
  if was_active or blocked_jobs.get(s, id) then
    local enqueued_at = body.text(body.enqueued_at(packed))
    dying.wait_again(s, id, packed, 'stalled', journal.facts(id, packed, s.cfg) .. ',"enqueued_at_ms":' .. enqueued_at)
  else
    waiting.wait(s, id, packed)
  end
end

-- What calls have missed, newest first: the kind ('b' body, 'a' delivery, 'd' dead letter), a space, the id.
function healing.quarantine(s)
  return call('LRANGE', s.names.q, 0, -1)
end

function healing.unindexed(s, id)
  if not s.undelivered then
    s.undelivered = {}
    for _, item in ipairs(healing.quarantine(s)) do
      if byte(item) == 97 then
        s.undelivered[sub(item, 3)] = true
      end
    end
  end
  healing.let_wait(s, id, s.undelivered[id])
end

function healing.undelivered(s, id)
  healing.let_wait(s, id, true)
end

function healing.unleased(s, id)
  s.X[id] = s.now + LIMITS.lease_ms
end

function healing.doubled(s, id)
  local named = s.names
  if call('HEXISTS', named.a, id) == 1 and call('ZSCORE', named.x, id) then
    s.R[id], s.L[id] = false, false
    return
  end
  waiting.let_go(s, id)
  if call('ZSCORE', named.r, id) then
    s.L[id] = false
  end
end

function healing.bodiless(s, id)
  s.R[id], s.L[id] = false, false
  waiting.let_go(s, id)
  healing.tell_lost(s, id)
  local blocked_job = blocked_jobs.get(s, id)
  if blocked_job then
    local packed = blocked_jobs.body(blocked_job)
    s.T[id] = false
    s.head.freed = 1
    waiting.wait(s, id, packed)
    journal.waits(s, 'enqueued', id, packed)
  end
end

function healing.stranded(s, id)
  local packed, blocked_job = waiting.body(s, id), blocked_jobs.get(s, id)
  if not packed then
    blocked_jobs.free(s, id)
    return
  end
  packed = blocked_jobs.applied(blocked_job, packed)
  s.T[id], s.R[id], s.L[id] = false, false, false
  waiting.wait(s, id, packed)
  journal.waits(s, 'merged', id, packed)
end
