-- Purge dead letters.
--
-- uses     shard, dead_letters, step
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; per shard: how many numbers of dead letters, and these
-- answers  per shard: nil where it does not exist, else how many dead letters were purged
-- flags    allow-oom
local function purge(s, args, at, count)
  local purged = 0
  for offset = 1, count do
    local dead_letter = dead_letters.get(s, args[at + offset])
    if dead_letter and dead_letter.until_ms > s.now then
      dead_letters.purge(s, dead_letter)
      purged = purged + 1
    end
  end
  step.commit(s)
  return purged
end

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local at, answers = 3, {}
  for i, s in ipairs(found) do
    local count = tonumber(args[at])
    answers[i] = s and purge(s, args, at, count)
    at = at + 1 + count
  end
  return answers
end
