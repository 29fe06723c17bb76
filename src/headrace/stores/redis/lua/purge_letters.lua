-- Throw letters away.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; per shard: how many numbers of letters, and these
-- answers  per shard: nil for one that is not there, else how many letters there were
-- flags    allow-oom
local function purge(s, args, at, count)
  local purged = 0
  for offset = 1, count do
    local letter = letters.get(s, args[at + offset])
    if letter and letter.until_ms > s.now then
      letters.purge(s, letter)
      purged = purged + 1
    end
  end
  finish(s)
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
