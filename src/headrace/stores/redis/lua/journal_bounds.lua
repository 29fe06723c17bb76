-- What journals hold.
--
-- keys     the `m` keys of shards of any queues
-- args     per shard: the number of shards of its queue
-- answers  per shard: nil for one that is not there, else epoch, first seq, last seq, time of the first and of the last
--          entry, bytes
-- flags    allow-oom
local function run(keys, args)
  local found, refused = shard.open(keys, args)
  if refused then
    return refused
  end
  local answers = {}
  for index, s in ipairs(found) do
    answers[index] = s and journal.bounds(s)
  end
  return answers
end
