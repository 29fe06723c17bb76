-- Delete everything of ids: job, blocked job, finished job, dead letters.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; per shard: how many ids, and these
-- answers  per shard: nil for one that is not there, else a character for each id: 'r' removed, 'n' not found
-- flags    allow-oom
local function is_finished_job_kept(s, id)
  if s.removed[id] then
    return false
  end
  local packed = call('HGET', s.names.o, id)
  return packed and finished_job.until_ms(packed) > s.now
end

-- What is said of a job that waited or ran; nothing when only what is kept of ended ones goes.
local function told(s, id, packed)
  if not packed then
    return ''
  end
  local kind = body.kind_and_tag(packed)
  local reason = waiting.delivery(s, id) and 'active' or 'waiting'
  return ',"kind":' .. json.quote(kind) .. ',"reason":"' .. reason .. '"'
end

local function remove_one(s, id)
  local packed = waiting.body(s, id)
  local numbers = dead_letters.numbers_of(s, id)
  local is_kept = packed or is_finished_job_kept(s, id)
  for i = 1, #numbers do
    if is_kept then
      break
    end
    local dead_letter = dead_letters.get(s, numbers[i])
    is_kept = dead_letter and dead_letter.until_ms > s.now
  end
  if not is_kept then
    return 'n'
  end
  local more = told(s, id, packed)
  waiting.drop(s, id)
  waiting.let_go(s, id)
  s.T[id] = false
  finished_job.drop(s, id)
  s.removed[id] = true
  telling.note(s, id)
  for _, number in ipairs(numbers) do
    dead_letters.drop(s, number, id)
  end
  journal.note(s, '{"event":"removed","id":' .. json.quote(id) .. more .. '}')
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
      s.removed = {}
      for offset = 1, count do
        statuses[offset] = remove_one(s, args[at + offset])
      end
      finish(s)
    end
    answers[i] = s and concat(statuses)
    at = at + 1 + count
  end
  return answers
end
