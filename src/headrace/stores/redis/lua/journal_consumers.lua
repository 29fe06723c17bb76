-- The consumers of a journal.
--
-- uses     shard
-- keys     the `m` key of a shard
-- args     number of shards; then 0
-- answers  nil when the shard does not exist, else consumer and its 'seq hold seen_at_ms' in turn
-- flags    no-writes
local function run(keys, args)
  local found, refusal = shard.read(keys, args[1])
  if refusal then
    return refusal
  end
  local s = found[1]
  if not s then
    return { false }
  end
  return { call('HGETALL', s.names.consumers) }
end
