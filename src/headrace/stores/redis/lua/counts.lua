-- How many jobs are in each state.
--
-- uses     shard, state_counts
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; then 0 per shard
-- answers  per shard: nil where it does not exist, else waiting, later, blocked, active, done, cancelled, dead, and
--          since when the oldest one among the first jobs of each priority has been due, or nil
-- flags    no-writes
local function run(keys, args)
  local found, refusal = shard.read(keys, args[1], shard.now(args[2]))
  if refusal then
    return refusal
  end
  local answers = {}
  for index, s in ipairs(found) do
    answers[index] = s and state_counts.of(s)
  end
  return answers
end
