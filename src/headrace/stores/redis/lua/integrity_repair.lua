-- Look at a part of a shard and put right what does not fit together.
--
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', phase, cursor, about how many records to look at; then 0
-- answers  nil when the shard is not there, else what mending.walk answers
-- flags    allow-oom
local function run(keys, args)
  local found, refused = shard.open(keys, args[1], shard.now(args[2]))
  if refused then
    return refused
  end
  local s = found[1]
  return { s and mending.walk(s, tonumber(args[3]), args[4], tonumber(args[5]), true) }
end
