-- The readers of a journal.
--
-- keys     the `m` key of a shard
-- args     number of shards; then 0
-- answers  nil when the shard is not there, else consumer and its 'seq hold seen_at_ms' in turn
-- flags    no-writes
local function run(keys, args)
  local found, refused = shard.look(keys, args[1])
  if refused then
    return refused
  end
  local s = found[1]
  if not s then
    return { false }
  end
  return { call('HGETALL', s.names.jc) }
end
