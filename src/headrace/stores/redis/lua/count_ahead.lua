-- How many ready jobs come before order keys.
--
-- uses     shard
-- keys     the `m` keys of shards of one queue
-- args     number of shards; per shard: how many order keys, and these
-- answers  per shard: nil where it does not exist, else the number of jobs before each
-- flags    no-writes
local function run(keys, args)
  local found, refusal = shard.read(keys, args[1])
  if refusal then
    return refusal
  end
  local answers, at = {}, 2
  for index, s in ipairs(found) do
    local count = tonumber(args[at])
    answers[index] = s and {}
    for i = 1, s and count or 0 do
      answers[index][i] = call('ZCOUNT', s.names.ready, '-inf', '(' .. args[at + i])
    end
    at = at + count + 1
  end
  return answers
end
