-- How many jobs are waiting, blocked or active.
--
-- uses     shard
-- keys     the `m` keys of shards of one queue
-- args     number of shards; then 0 per shard
-- answers  per shard: nil where it does not exist, else the number
-- flags    no-writes
local function run(keys, args)
  local found, refusal = shard.read(keys, args[1])
  if refusal then
    return refusal
  end
  local answers = {}
  for index, s in ipairs(found) do
    local names = s and s.names
    answers[index] = s
      and call('ZCARD', names.ready)
        + call('ZCARD', names.later)
        + call('HLEN', names.blocked)
        + call('ZCARD', names.leases)
  end
  return answers
end
