-- How many jobs wait, are blocked or run.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards; then 0 per shard
-- answers  per shard: nil for one that is not there, else the number
-- flags    no-writes
local function run(keys, args)
  local found, refused = shard.look(keys, args[1])
  if refused then
    return refused
  end
  local answers = {}
  for index, s in ipairs(found) do
    local named = s and s.names
    answers[index] = s
      and call('ZCARD', named.r) + call('ZCARD', named.l) + call('HLEN', named.t) + call('ZCARD', named.x)
  end
  return answers
end
