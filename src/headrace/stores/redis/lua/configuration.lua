-- The configuration of shards.
--
-- uses     shard
-- keys     the `m` keys of shards of one queue
-- args     number of shards; then 0 per shard
-- answers  per shard: nil where it does not exist, else the configuration (JSON)
-- flags    no-writes
local function run(keys, args)
  local found, refusal = shard.read(keys, args[1])
  if refusal then
    return refusal
  end
  local answers = {}
  for index, key in ipairs(keys) do
    answers[index] = found[index] and call('HGET', key, 'cfg')
  end
  return answers
end
