-- What a journal holds.
--
-- keys     the `m` key of a shard
-- args     number of shards; then 0
-- answers  nil when the shard is not there, else epoch, first seq, last seq, time of the first and of the last entry, bytes
-- flags    allow-oom
local function run(keys, args)
  local found, refused = shard.open(keys, args[1])
  if refused then
    return refused
  end
  local s = found[1]
  if not s then
    return { false }
  end
  return { call('HMGET', s.names.m, 'epoch', 'first', 'seq', 'oldest', 'at', 'bytes') }
end
