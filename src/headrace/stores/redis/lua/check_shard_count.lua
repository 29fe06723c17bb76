-- The number of shards of queues; refuses a wrong number.
--
-- uses     key_names, shard
-- keys     the `m` keys of shards
-- args     the expected number of shards, or '' for any
-- answers  per shard: the number that it has stored, and the number of its main queue; nil where it does not exist
-- flags    no-writes
local function run(keys, args)
  local _, refusal = shard.read(keys, args[1])
  if refusal then
    return refusal
  end
  local answers = {}
  for index, key in ipairs(keys) do
    answers[index] = { call('HGET', key, 'shards'), call('HGET', key_names.other_queue(key), 'shards') }
  end
  return answers
end
