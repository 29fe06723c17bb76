-- The bounds of journals.
--
-- uses     journal, shard
-- keys     the `m` keys of shards of any queues
-- args     per shard: the number of shards of its queue
-- answers  per shard: nil where it does not exist, else epoch, first seq, last seq, instants of the first and of the
--          last entry, bytes
-- flags    allow-oom
local function run(keys, args)
  local found, refusal = shard.open(keys, args)
  if refusal then
    return refusal
  end
  local answers = {}
  for index, s in ipairs(found) do
    answers[index] = s and journal.bounds(s)
  end
  return answers
end
