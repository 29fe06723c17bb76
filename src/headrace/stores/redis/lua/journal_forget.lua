-- Forget a reader of a journal.
--
-- keys     the `m` key of a shard
-- args     number of shards, consumer; then 0
-- answers  nil when the shard is not there, else whether it was known
-- flags    allow-oom
local function run(keys, args)
  local found, refused = shard.look(keys, args[1])
  if refused then
    return refused
  end
  local s = found[1]
  if not s then
    return { false }
  end
  return { call('HDEL', s.names.jc, args[2]) }
end
