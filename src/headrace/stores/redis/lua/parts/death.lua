-- Death: a job that dies leaves a dead letter, and where its queue has a fail handler a job on the fail queue.
--
-- uses  json, numbers, job_codec, journal, shard, notify, live_jobs, dead_letters

local death = {}

-- The payload for a fail handler: [id, payload, error]; a payload that is not JSON comes as base64.
local function fail_payload(id, packed, reason, class, message)
  local payload = job_codec.payload(packed)
  if not json.is_value(payload) then
    payload = '{"base64": "' .. json.base64(payload) .. '"}'
  end
  return '[' .. json.quote(id) .. ',' .. payload
    .. ',{"class": ' .. json.quote(class)
    .. ', "message": ' .. json.quote(message)
    .. ', "reason": "' .. reason .. '"}]'
end

local function add_fail_job(s, id, number, packed, reason, class, message)
  local fail_queue = shard.fail_queue(s)
  s.has_added_fail_job, fail_queue.is_drained, fail_queue.first_due = true, nil, nil
  local _, tag = job_codec.kind_and_tag(packed)
  local payload = fail_payload(id, packed, reason, class, message)
  local fail_job = job_codec.new(s.now, FAIL_KIND, tag, payload, job_codec.headers(packed))
  local fail_id = id .. '#' .. numbers.text(number)
  live_jobs.drop(fail_queue, fail_id)
  live_jobs.drop_lease(fail_queue, fail_id)
  fail_queue.later[fail_id] = false
  -- Numbers of dead letters start again in a queue that was deleted, so a job with this id may have ended before.
  fail_queue.counters.freed = 1
  live_jobs.add(fail_queue, fail_id, fail_job)
  journal.add_job_line(fail_queue, 'enqueued', fail_id, fail_job)
end

-- For each step what its deaths did to the fail queue: '0' nothing, '1' created it, '2' added a job to the existing
-- one.
function death.fail_queue_flags(found)
  local flags = {}
  for i, s in ipairs(found) do
    flags[i] = s and (s.has_created_fail_queue and '1' or s.has_added_fail_job and '2') or '0'
  end
  return concat(flags)
end

-- Record the death of a job that is already dropped; `members` are the JSON members of its line so far. Returns the
-- number of the dead letter.
function death.record(s, id, packed, reason, class, message, members)
  local number = dead_letters.put(s, id, packed, reason, class, message)
  notify.note_end(s, id)
  journal.add_line(s, '{"event":"dead",' .. members
    .. ',"reason":"' .. reason .. '","dead_letter":' .. numbers.text(number)
    .. journal.error_members(class, message) .. '}')
  dead_letters.sweep(s, 2)
  if s.cfg.fail_handler and not s.names.is_fail_queue then
    add_fail_job(s, id, number, packed, reason, class, message)
  end
  return number
end

-- Let a waiting job die that was not started in time.
function death.expire(s, id, packed)
  live_jobs.drop(s, id)
  death.record(s, id, packed, 'expired', EXPIRED.class, EXPIRED.message, journal.leaving_members(s, id, packed))
end

return death
