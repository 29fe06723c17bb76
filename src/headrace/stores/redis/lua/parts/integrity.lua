-- Integrity: find records of a shard that contradict each other, and repair them.
--
-- uses  json, numbers, job_codec, chunked, journal, notify, live_jobs, finished_jobs, blocked_jobs, dead_letters,
--       outcome, step
--
-- A walk goes through the scans in SCANS, one key each. A check of one part of a scan reports problems, each with an id
-- and the function that repairs it; the problems are those of headrace.model.integrity. A repair decides like any other
-- call.

local integrity = {}

-- Keep a command for after the commit: it must not come before the journal entry.
local function run_after_commit(s, ...)
  s.commands_after_commit = s.commands_after_commit or {}
  s.commands_after_commit[#s.commands_after_commit + 1] = { ... }
end

-- Note the end of a job of which nothing is left.
local function note_lost_job(s, id)
  notify.note_end(s, id)
  journal.add_line(s, '{"event":"removed","id":' .. json.quote(id) .. ',"reason":"lost"}')
end

local function has_body(s, id)
  return call('HEXISTS', s.names.bodies, id) == 1
end

local function is_unindexed(s, id)
  local names = s.names
  return call('HEXISTS', names.deliveries, id) == 0
    and not (call('ZSCORE', names.ready, id) or call('ZSCORE', names.later, id) or call('ZSCORE', names.leases, id))
end

-- Let a job that is in no index wait again, without counting an attempt. A job that was active gets its event, and its
-- blocked job is applied.
local function requeue(s, id, was_active)
  local packed = live_jobs.get_body(s, id)
  if was_active or blocked_jobs.get(s, id) then
    local enqueued_at = numbers.text(job_codec.enqueued_at(packed))
    local members = journal.job_members(id, packed, s.cfg) .. ',"enqueued_at_ms":' .. enqueued_at
    outcome.requeue(s, id, packed, 'stalled', members)
  else
    live_jobs.add(s, id, packed)
  end
end

-- The records that calls have missed, newest first: 'b' a body, 'a' a delivery or 'd' a dead letter; a space; the id.
function integrity.read_quarantine(s)
  return call('LRANGE', s.names.quarantine, 0, -1)
end

local function repair_unindexed(s, id)
  if not s.undelivered_ids then
    s.undelivered_ids = {}
    for _, record in ipairs(integrity.read_quarantine(s)) do
      if byte(record) == 97 then
        s.undelivered_ids[sub(record, 3)] = true
      end
    end
  end
  requeue(s, id, s.undelivered_ids[id])
end

local function repair_undelivered(s, id)
  requeue(s, id, true)
end

local function repair_unleased(s, id)
  s.leases[id] = s.now + LIMITS.lease_ms_default
end

local function repair_doubled(s, id)
  local names = s.names
  if call('HEXISTS', names.deliveries, id) == 1 and call('ZSCORE', names.leases, id) then
    s.ready[id], s.later[id] = false, false
    return
  end
  live_jobs.drop_lease(s, id)
  if call('ZSCORE', names.ready, id) then
    s.later[id] = false
  end
end

local function repair_bodiless(s, id)
  s.ready[id], s.later[id] = false, false
  live_jobs.drop_lease(s, id)
  note_lost_job(s, id)
  local blocked_job = blocked_jobs.get(s, id)
  if blocked_job then
    local packed = blocked_jobs.body_of(blocked_job)
    s.blocked[id] = false
    s.counters.freed = 1
    live_jobs.add(s, id, packed)
    journal.add_job_line(s, 'enqueued', id, packed)
  end
end

local function repair_stranded(s, id)
  local packed, blocked_job = live_jobs.get_body(s, id), blocked_jobs.get(s, id)
  if not packed then
    blocked_jobs.release(s, id)
    return
  end
  packed = blocked_jobs.apply(blocked_job, packed)
  s.blocked[id], s.ready[id], s.later[id] = false, false, false
  live_jobs.add(s, id, packed)
  journal.add_job_line(s, 'merged', id, packed)
end

-- A job is either in one index of waiting jobs, or has a lease and a delivery.
local function check_bodies(s, ids, _, add)
  local names = s.names
  local ready, later = chunked.get_scores(names.ready, ids), chunked.get_scores(names.later, ids)
  local leases = chunked.get_scores(names.leases, ids)
  local deliveries = chunked.get_values(names.deliveries, ids)
  for i, id in ipairs(ids) do
    local is_waiting, is_active = ready[i] or later[i], deliveries[i] or leases[i]
    if is_waiting and is_active or ready[i] and later[i] then
      add('doubled', id, repair_doubled)
    elseif not is_waiting and not is_active then
      add('unindexed', id, repair_unindexed)
    elseif is_active and not leases[i] then
      add('unleased', id, repair_unleased)
    elseif is_active and not deliveries[i] then
      add('undelivered', id, repair_undelivered)
    end
  end
end

-- An id of an index has a body.
local function check_bodies_exist(s, ids, _, add)
  for _, id in ipairs(ids) do
    if not has_body(s, id) then
      add('bodiless', id, repair_bodiless)
    end
  end
end

-- A blocked job belongs to an active job.
local function check_blocked_jobs(s, ids, _, add)
  for i, delivery in ipairs(chunked.get_values(s.names.deliveries, ids)) do
    if not delivery then
      add('stranded', ids[i], repair_stranded)
    end
  end
end

-- A dead letter is in the sorted sets by number and by id.
local function check_dead_letters(s, letter_numbers, packed, add)
  local listed = chunked.get_scores(s.names.dead_letter_numbers, letter_numbers)
  for i, number in ipairs(letter_numbers) do
    local id_size = struct_unpack('>I2', packed[i], 14)
    local member = dead_letters.id_member(sub(packed[i], 20, 19 + id_size), number)
    if not (listed[i] and call('ZSCORE', s.names.dead_letter_ids, member)) then
      add('unlisted', number, function()
        run_after_commit(s, 'ZADD', s.names.dead_letter_numbers, number, number)
        run_after_commit(s, 'ZADD', s.names.dead_letter_ids, 0, member)
      end)
    end
  end
end

-- A number of the sorted set has a dead letter.
local function check_dead_letters_exist(s, letter_numbers, _, add)
  for _, number in ipairs(letter_numbers) do
    if call('HEXISTS', s.names.dead_letters, number) == 0 then
      add('bodiless', number, function()
        run_after_commit(s, 'ZREM', s.names.dead_letter_numbers, number)
      end)
    end
  end
end

-- A member of the sorted set by id has a dead letter. The member names the id, so a lost dead letter gets its event
-- here.
local function check_dead_letters_of_ids_exist(s, members, _, add)
  for _, member in ipairs(members) do
    local at = find(member, '\0', 1, true)
    local id, number = sub(member, 1, at - 1), numbers.text(tonumber(sub(member, at + 1)))
    if call('HEXISTS', s.names.dead_letters, number) == 0 then
      add('bodiless', number, function()
        run_after_commit(s, 'ZREM', s.names.dead_letter_ids, member)
        journal.add_line(s, '{"event":"purged","id":' .. json.quote(id) .. ',"dead_letter":' .. number .. '}')
      end)
    end
  end
end

-- How many finished jobs are done, and how many are cancelled; beyond a bound only their sum is counted.
local function count_finished_jobs(s)
  local size, counters = call('HLEN', s.names.finished), s.counters
  if size > LIMITS.sweep_per_call_max then
    local cancelled = math.min(counters.cancelled, size)
    return size - cancelled, cancelled
  end
  local done = 0
  for _, packed in ipairs(call('HVALS', s.names.finished)) do
    done = done + (finished_jobs.state(packed) == 'done' and 1 or 0)
  end
  return done, size - done
end

-- Compare the counters of finished jobs with the finished jobs.
local function check_counts(s, is_repairing, report)
  local counters = s.counters
  if is_repairing then
    counters.blocked, counters.over_at = call('HLEN', s.names.blocked), 0
  end
  local done, cancelled = count_finished_jobs(s)
  for name, counted in pairs({ done = done, cancelled = cancelled }) do
    if counters[name] ~= counted then
      report.count_mismatches[#report.count_mismatches + 1] = name
      report.count_mismatches[#report.count_mismatches + 1] = numbers.text(math.max(counters[name], 0))
      report.count_mismatches[#report.count_mismatches + 1] = numbers.text(counted)
      if is_repairing then
        counters[name] = counted
      end
    end
  end
end

-- Deal with the records that calls have missed: a job without a delivery waits again, a job without a body is gone.
local function clear_quarantine(s, report)
  local records, seen = integrity.read_quarantine(s), {}
  for _, record in ipairs(records) do
    local kind, id = sub(record, 1, 1), sub(record, 3)
    if kind ~= 'd' and not seen[id] then
      seen[id] = true
      if not has_body(s, id) then
        if call('HEXISTS', s.names.finished, id) == 0 and #dead_letters.numbers_of(s, id) == 0 then
          note_lost_job(s, id)
        end
      elseif is_unindexed(s, id) then
        report.damages[#report.damages + 1] = 'unindexed'
        report.damages[#report.damages + 1] = id
        requeue(s, id, kind == 'a')
      end
    end
  end
  if #records > 0 then
    run_after_commit(s, 'UNLINK', s.names.quarantine)
  end
  report.cleared = #records
end

local SCANS = {
  { 'HSCAN', 'bodies', check_bodies },
  { 'ZSCAN', 'ready', check_bodies_exist },
  { 'ZSCAN', 'later', check_bodies_exist },
  { 'ZSCAN', 'leases', check_bodies_exist },
  { 'HSCAN', 'deliveries', check_bodies_exist },
  { 'HSCAN', 'blocked', check_blocked_jobs },
  { 'HSCAN', 'dead_letters', check_dead_letters },
  { 'ZSCAN', 'dead_letter_numbers', check_dead_letters_exist },
  { 'ZSCAN', 'dead_letter_ids', check_dead_letters_of_ids_exist },
}

local function commit(s)
  step.commit(s)
  for _, command in ipairs(s.commands_after_commit or {}) do
    call(unpack(command))
  end
  s.commands_after_commit = nil
end

-- Check one part of one scan: returns the next cursor, and how many names were checked.
local function check_part(s, phase, cursor, limit, report, is_repairing)
  local command, key_name, check = unpack(SCANS[phase])
  local next_cursor, flat = unpack(call(command, s.names[key_name], cursor, 'COUNT', limit))
  local members, values, repairs, seen = {}, {}, {}, {}
  for at = 1, #flat, 2 do
    if not seen[flat[at]] then -- a scan may show a name twice
      seen[flat[at]] = true
      members[#members + 1], values[#values + 1] = flat[at], flat[at + 1]
    end
  end
  check(s, members, values, function(problem, id, repair)
    report.damages[#report.damages + 1] = problem
    report.damages[#report.damages + 1] = id
    repairs[#repairs + 1] = { repair, id }
  end)
  if is_repairing and #repairs > 0 then
    for _, repair in ipairs(repairs) do
      repair[1](s, repair[2])
    end
    commit(s)
  end
  return next_cursor, #members
end

-- Check about `limit` records from a phase and the cursor of its scan on, and repair them if `is_repairing`. Returns
-- problem and id in turn; counter, its value and the count in turn; how many records of the quarantine were cleared;
-- and where to continue: the phase ('' at the end) and the cursor.
function integrity.walk(s, phase, cursor, limit, is_repairing)
  local report, checked = { damages = {}, count_mismatches = {}, cleared = 0 }, 0
  while phase <= #SCANS and checked < limit do
    local count
    cursor, count = check_part(s, phase, cursor, limit - checked, report, is_repairing)
    checked = checked + count
    if cursor == '0' then
      phase = phase + 1
    end
  end
  if phase <= #SCANS then
    return { report.damages, report.count_mismatches, 0, phase, cursor }
  end
  check_counts(s, is_repairing, report)
  if is_repairing then
    clear_quarantine(s, report)
    commit(s)
  end
  return { report.damages, report.count_mismatches, report.cleared, '', '' }
end

return integrity
