-- Blocked jobs: jobs that were enqueued while their id was active, merged into one per id.
--
-- uses  job_codec, journal, live_jobs
--
-- Packed: flags 1 (1 update the payload, 2 the policy, 4 reset the counts) · lowest run_at plus one 6 · highest run_at
-- 6 · body.

local blocked_jobs = {}

local BODY_AT = 14

blocked_jobs.BODY_AT = BODY_AT

-- The run_at after an enqueue, by its time flag: 'a' always takes the new one, 'l' if later, 'e' if earlier, 'n' never.
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

-- The blocked job of an id after the decisions of this call so far; false when there is none.
function blocked_jobs.get(s, id)
  local packed = s.blocked[id]
  if packed ~= nil then
    return packed
  end
  if s.has_blocked_jobs == nil then
    s.has_blocked_jobs = s.counters.blocked > 0
  end
  return s.has_blocked_jobs and call('HGET', s.names.blocked, id)
end

-- The body of a blocked job.
function blocked_jobs.body_of(packed)
  return sub(packed, BODY_AT)
end

-- The blocked job after a further enqueue; `old` is the blocked job before, `options` say what the enqueue updates.
function blocked_jobs.merge(old, new, options, due)
  local flags, lo, hi, body = 0, UNBOUNDED_LO_MS, UNBOUNDED_HI_MS, new
  if old then
    flags, lo, hi = struct_unpack('>BI6I6', old)
    lo, body = lo - 1, blocked_jobs.body_of(old)
    local run_at = blocked_jobs.merged_time(options.time, job_codec.run_at(body), due)
    body = job_codec.merged(body, new, run_at, options.payload, options.policy, options.reset)
  end
  local payload = options.payload or flags % 2 >= 1
  local policy = options.policy or flags % 4 >= 2
  local reset = options.reset or flags >= 4
  return struct_pack(
    '>BI6I6',
    (payload and 1 or 0) + (policy and 2 or 0) + (reset and 4 or 0),
    blocked_jobs.merged_time(options.time, lo, due) + 1,
    blocked_jobs.merged_time(options.time, hi, due)
  ) .. body
end

-- The body of a job that waits again, after its blocked job was applied to it.
function blocked_jobs.apply(blocked_job, packed)
  local flags, lo, hi = struct_unpack('>BI6I6', blocked_job)
  local run_at = job_codec.run_at(packed)
  run_at = run_at < lo - 1 and lo - 1 or run_at
  run_at = run_at > hi and hi or run_at
  return job_codec.merged(packed, blocked_jobs.body_of(blocked_job), run_at, flags % 2 >= 1, flags % 4 >= 2, flags >= 4)
end

-- Turn the blocked job of an ended job into a waiting job.
function blocked_jobs.release(s, id)
  local blocked_job = blocked_jobs.get(s, id)
  if blocked_job then
    local packed = blocked_jobs.body_of(blocked_job)
    s.blocked[id] = false
    s.counters.freed = 1
    live_jobs.add(s, id, packed)
    journal.add_job_line(s, 'unblocked', id, packed)
  end
end

return blocked_jobs
