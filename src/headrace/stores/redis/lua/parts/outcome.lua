-- What follows when a delivery or a job is over: it waits again, has ended, or has died.

local dying = {}

local FAIL_KIND = 'headrace.fail'
local STALLED = { class = 'Stalled', message = 'the lease ran out before the delivery was settled' }
local EXPIRED = { class = 'Expired', message = 'the job was not started before its expires_at_ms' }

-- What a fail handler reads: [id, payload, error]; a payload that is not JSON comes as base64.
local function fail_payload(id, packed, reason, class, message)
  local payload = body.payload(packed)
  if not json.is_value(payload) then
    payload = '{"base64": "' .. json.base64(payload) .. '"}'
  end
  return '[' .. json.quote(id) .. ',' .. payload
    .. ',{"class": ' .. json.quote(class)
    .. ', "message": ' .. json.quote(message)
    .. ', "reason": "' .. reason .. '"}]'
end

local function hand_to_fail_handler(s, id, number, packed, reason, class, message)
  local fail_queue = shard.fail_queue(s)
  s.has_handed_on, fail_queue.is_drained, fail_queue.due = true, nil, nil
  local _, tag = body.kind_and_tag(packed)
  local payload = fail_payload(id, packed, reason, class, message)
  local failed = body.new(s.now, FAIL_KIND, tag, payload, body.headers(packed))
  local failed_id = id .. '#' .. body.text(number)
  waiting.drop(fail_queue, failed_id)
  waiting.let_go(fail_queue, failed_id)
  fail_queue.L[failed_id] = false
  fail_queue.head.freed = 1 -- numbers of dead letters begin anew in a queue that was deleted: this id may have ended before
  waiting.wait(fail_queue, failed_id, failed)
  journal.waits(fail_queue, 'enqueued', failed_id, failed)
end

-- For each shard of a call what its deaths did to the fail queue: '0' nothing, '1' made it, '2' left a job on the one that
-- was there.
function dying.handed_on(found)
  local flags = {}
  for i, s in ipairs(found) do
    flags[i] = s and (s.made and '1' or s.has_handed_on and '2') or '0'
  end
  return concat(flags)
end

-- Write the dead letter of a job that has left its row; `said` are the members of its line so far. Returns its number.
function dying.die(s, id, packed, reason, class, message, said)
  local number = dead_letters.put(s, id, packed, reason, class, message)
  telling.note(s, id)
  journal.note(s, '{"event":"dead",' .. said
    .. ',"reason":"' .. reason .. '","dead_letter":' .. body.text(number)
    .. journal.failure(class, message) .. '}')
  dead_letters.sweep(s, 2)
  if s.cfg.fail_handler and not s.names.is_fail_queue then
    hand_to_fail_handler(s, id, number, packed, reason, class, message)
  end
  return number
end

-- A delivery that ends with its job waiting again; `packed` has its new time and counters. Returns the body as stored.
local function wait_again(s, id, packed, event, said)
  local blocked_job = blocked_jobs.get(s, id)
  local failure = ''
  if event == 'retried' then
    local _, class, message = body.error(packed)
    failure = journal.failure(class, message)
  end
  journal.note(s, '{"event":"' .. event .. '",' .. said
    .. journal.counts(packed)
    .. ',"run_at_ms":' .. body.text(body.run_at(packed)) .. failure .. '}')
  waiting.let_go(s, id)
  if blocked_job then
    s.T[id] = false
    packed = blocked_jobs.applied(blocked_job, packed)
  end
  waiting.wait(s, id, packed)
  if blocked_job then
    journal.waits(s, 'merged', id, packed)
  end
  return packed
end
dying.wait_again = wait_again

-- A delivery that ends its job, done ('d') or cancelled ('c'). `head` may be a whole body's.
local EVENTS = { d = 'done', c = 'cancelled' }
function dying.over(s, id, head, state, result, said)
  waiting.let_go(s, id)
  s.B[id] = false
  finished_job.put(s, id, head, state, result)
  telling.note(s, id)
  journal.note(s, '{"event":"' .. EVENTS[state] .. '",' .. said .. journal.counts(head) .. '}')
  blocked_jobs.free(s, id)
end

local function dead(s, id, packed, reason, class, message, said)
  waiting.let_go(s, id)
  s.B[id] = false
  local number = dying.die(s, id, packed, reason, class, message, said .. journal.counts(packed))
  blocked_jobs.free(s, id)
  return number
end

local function backoff(attempts, first_ms, most_ms, jitter_ppm)
  local _, bits = math.frexp(most_ms)
  local full = math.min(first_ms * 2 ^ math.min(math.max(attempts - 1, 0), bits), most_ms)
  -- In two parts, since a year times a million is beyond what a double holds exactly.
  local millions = floor(full / 1e6)
  return millions * jitter_ppm + floor((full - millions * 1e6) * jitter_ppm / 1e6)
end

function dying.fail(s, id, packed, class, message, said)
  return dead(s, id, body.failed(packed, 1, 0, s.now, class, message), 'failed', class, message, said)
end

-- A failed attempt: answers 'R' and the new time, 'X' and the dead letter, or 'C'.
function dying.retry(s, id, packed, asked, delay, jitter_ppm, class, message, said)
  local failed, cfg = body.failed(packed, 1, 0, s.now, class, message), s.cfg
  if asked then
    dying.over(s, id, body.head(failed), 'c', nil, said)
    return 'C'
  end
  local attempts = body.counts(failed)
  if attempts >= body.rule(packed, 'max_attempts', cfg) then
    return 'X', dead(s, id, failed, 'attempts', class, message, said)
  end
  if not delay then
    local first, most = body.rule(packed, 'backoff_ms', cfg), body.rule(packed, 'backoff_ms_max', cfg)
    delay = backoff(attempts, first, most, jitter_ppm)
  end
  failed = wait_again(s, id, body.with_run_at(failed, s.now + delay), 'retried', said)
  return 'R', body.run_at(failed)
end

-- A delivery that was given back: answers 'L' and the new time, or 'C'.
function dying.release(s, id, packed, asked, delay, said)
  if asked then
    dying.over(s, id, body.head(packed), 'c', nil, said)
    return 'C'
  end
  return 'L', body.run_at(wait_again(s, id, body.with_run_at(packed, s.now + delay), 'released', said))
end

-- What a worker would have said of a delivery that it did not settle itself.
local function said_of(s, id, packed, delivery)
  local waited = math.max(delivery.claimed_at - body.due_since(packed), 0)
  return journal.facts(id, packed, s.cfg)
    .. ',"fence":' .. body.text(delivery.fence)
    .. (delivery.worker == s.worker and '' or ',"worker":' .. json.quote(delivery.worker))
    .. ',"enqueued_at_ms":' .. body.text(body.enqueued_at(packed))
    .. ',"wait_ms":' .. body.text(waited)
    .. ',"run_ms":' .. body.text(math.max(s.now - delivery.claimed_at, 0))
end

-- A delivery whose lease ran out: due at once, or over.
function dying.stall(s, id, packed, delivery)
  local said = said_of(s, id, packed, delivery)
  local stalled = body.failed(packed, 0, 1, s.now, STALLED.class, STALLED.message)
  local _, stalls = body.counts(stalled)
  if delivery.asked then
    dying.over(s, id, body.head(stalled), 'c', nil, said)
  elseif stalls >= body.rule(packed, 'max_stalls', s.cfg) then
    dead(s, id, stalled, 'stalls', STALLED.class, STALLED.message, said)
  else
    wait_again(s, id, body.with_run_at(stalled, s.now), 'stalled', said)
  end
end

-- A job that was found too late to start.
function dying.expire(s, id, packed)
  waiting.drop(s, id)
  dying.die(s, id, packed, 'expired', EXPIRED.class, EXPIRED.message, journal.leaving(s, id, packed))
end

-- Write what a call has decided on a shard, its journal entry first; and what it has decided on the fail queue, unless
-- that is a shard of the call itself, which is finished once, with all that was decided on it.
local function finish(s)
  if s.fail_queue and not s.is_shared then
    finish(s.fail_queue)
  end
  s.fail_queue = nil
  local has_written, over = s.count > 0, s.over
  journal.write(s)
  waiting.write(s)
  finished_job.write(s)
  dead_letters.write(s)
  if s.is_sweeping then
    finished_job.sweep(s)
    s.is_sweeping = false
  end
  if has_written then
    journal.trim(s, LIMITS.trim)
  end
  shard.save(s)
  if s.awaited then
    telling.ends(s, over)
  end
end

-- The same for the shards of a call, false for those that are not there, after all of them have decided.
local function finish_all(found)
  for _, s in ipairs(found) do
    if s then
      finish(s)
    end
  end
end
