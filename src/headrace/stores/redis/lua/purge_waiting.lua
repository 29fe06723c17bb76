-- Drop waiting jobs.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; per shard: how many ids, and these
-- answers  per shard: nil for one that is not there, else how many of them waited and were dropped
-- flags    allow-oom
local function purge(s, args, at, count)
  local purged = 0
  for offset = 1, count do
    local id = args[at + offset]
    local packed = waiting.body(s, id)
    if packed and not waiting.delivery(s, id) then
      waiting.drop(s, id)
      journal.note(s, '{"event":"purged",' .. journal.leaving(s, id, packed) .. '}')
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
