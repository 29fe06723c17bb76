-- Make shards that are not there yet.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards, configuration (JSON) for those that are made; then 0 per shard
-- answers  per shard: the configuration that it has
-- flags
local function run(keys, args)
  local found, refused = shard.open(keys, args[1])
  if refused then
    return refused
  end
  local answers = {}
  for index, key in ipairs(keys) do
    if not found[index] then
      shard.make(key, args[1], args[2])
    end
    answers[index] = call('HGET', key, 'cfg')
  end
  return answers
end
