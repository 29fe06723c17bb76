-- Create shards that do not exist yet.
--
-- uses     shard
-- keys     the `m` keys of shards of one queue
-- args     number of shards, configuration (JSON) for new ones; then 0 per shard
-- answers  per shard: its configuration
-- flags
local function run(keys, args)
  local found, refusal = shard.open(keys, args[1])
  if refusal then
    return refusal
  end
  local answers = {}
  for index, key in ipairs(keys) do
    if not found[index] then
      shard.create(key, args[1], args[2])
    end
    answers[index] = call('HGET', key, 'cfg')
  end
  return answers
end
