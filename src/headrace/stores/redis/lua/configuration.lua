-- The configuration in force.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards; then 0 per shard
-- answers  per shard: nil for one that is not there, else the configuration (JSON)
-- flags    no-writes
local function run(keys, args)
  local found, refused = shard.look(keys, args[1])
  if refused then
    return refused
  end
  local answers = {}
  for index, key in ipairs(keys) do
    answers[index] = found[index] and call('HGET', key, 'cfg')
  end
  return answers
end
