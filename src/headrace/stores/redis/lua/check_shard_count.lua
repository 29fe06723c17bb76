-- Say into how many shards queues are cut, and refuse a number that is wrong.
--
-- keys     the `m` keys of shards
-- args     the number of shards that the caller counts with, or '' to ask without saying one
-- answers  per shard: the number that it knows and the one that its main queue knows, nil for one that is not there
-- flags    no-writes
local function run(keys, args)
  local _, refused = shard.look(keys, args[1])
  if refused then
    return refused
  end
  local answers = {}
  for index, key in ipairs(keys) do
    answers[index] = { call('HGET', key, 'shards'), call('HGET', keyed.main_queue(key), 'shards') }
  end
  return answers
end
