-- Remove all records of ids: job, blocked job, finished job, dead letters.
--
-- uses     json, job_codec, journal, shard, notify, live_jobs, finished_jobs, dead_letters, step
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; per shard: how many ids, and these
-- answers  per shard: nil where it does not exist, else a character for each id: 'r' removed, 'n' not found
-- flags    allow-oom
local function has_finished_job(s, id)
  if s.removed_ids[id] then
    return false
  end
  local packed = call('HGET', s.names.finished, id)
  return packed and finished_jobs.until_ms(packed) > s.now
end

-- The JSON members of a live job; '' without one.
local function live_members(s, id, packed)
  if not packed then
    return ''
  end
  local kind = job_codec.kind_and_tag(packed)
  local reason = live_jobs.get_delivery(s, id) and 'active' or 'waiting'
  return ',"kind":' .. json.quote(kind) .. ',"reason":"' .. reason .. '"'
end

local function remove_one(s, id)
  local packed = live_jobs.get_body(s, id)
  local letter_numbers = dead_letters.numbers_of(s, id)
  local exists = packed or has_finished_job(s, id)
  for i = 1, #letter_numbers do
    if exists then
      break
    end
    local dead_letter = dead_letters.get(s, letter_numbers[i])
    exists = dead_letter and dead_letter.until_ms > s.now
  end
  if not exists then
    return 'n'
  end
  local members = live_members(s, id, packed)
  live_jobs.drop(s, id)
  live_jobs.drop_lease(s, id)
  s.blocked[id] = false
  finished_jobs.drop(s, id)
  s.removed_ids[id] = true
  notify.note_end(s, id)
  for _, number in ipairs(letter_numbers) do
    dead_letters.drop(s, number, id)
  end
  journal.add_line(s, '{"event":"removed","id":' .. json.quote(id) .. members .. '}')
  return 'r'
end

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local at, answers = 3, {}
  for i, s in ipairs(found) do
    local count, statuses = tonumber(args[at]), {}
    if s then
      s.removed_ids = {}
      for offset = 1, count do
        statuses[offset] = remove_one(s, args[at + offset])
      end
      step.commit(s)
    end
    answers[i] = s and concat(statuses)
    at = at + 1 + count
  end
  return answers
end
