-- Replay dead letters: each becomes a job again.
--
-- uses     job_codec, journal, shard, live_jobs, finished_jobs, dead_letters, step
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or '', 1 to keep the counts; per shard: how many arguments follow, and per pick
--          two: 'n' and the number of a dead letter, or 'i' and an id for its newest dead letter; delay_ms
-- answers  per shard: nil where it does not exist, else per pick three: 'r' replayed, 'n' not found or 'u' id in use;
--          the number of the dead letter as text and its id, each '' when not found
-- flags
local function dead_letter_of(s, pick)
  local number = sub(pick, 2)
  if byte(pick) == 105 then
    local letter_numbers = dead_letters.numbers_of(s, number)
    number = letter_numbers[#letter_numbers]
  end
  local dead_letter = number and dead_letters.get(s, number)
  return dead_letter and dead_letter.until_ms > s.now and dead_letter
end

local function replay_one(s, pick, delay_ms, keep_counts)
  local dead_letter = dead_letter_of(s, pick)
  if not dead_letter then
    return 'n', '', ''
  end
  local id, packed = dead_letter.id, dead_letter.body
  if live_jobs.get_body(s, id) then
    return 'u', dead_letter.number, id
  end
  if not keep_counts then
    packed = job_codec.without_counts(packed)
  end
  packed = job_codec.with_run_at(packed, s.now + delay_ms)
  local expires_at = job_codec.policy(packed, 'expires_at_ms')
  if expires_at and expires_at < s.now then
    packed = job_codec.without_expiry(packed)
  end
  dead_letters.drop(s, dead_letter.number, id)
  finished_jobs.drop(s, id)
  live_jobs.add(s, id, packed)
  journal.add_job_line(s, 'replayed', id, packed, ',"dead_letter":' .. dead_letter.number)
  return 'r', dead_letter.number, id
end

local function run(keys, args)
  local now, keep_counts = shard.now(args[2]), args[3] == '1'
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local at, answers = 4, {}
  for i, s in ipairs(found) do
    local count, flat = tonumber(args[at]), {}
    if s then
      for offset = 1, count, 2 do
        local status, number, id = replay_one(s, args[at + offset], tonumber(args[at + offset + 1]), keep_counts)
        local n = #flat
        flat[n + 1], flat[n + 2], flat[n + 3] = status, number, id
      end
      step.commit(s)
    end
    answers[i] = s and flat
    at = at + 1 + count
  end
  return answers
end
