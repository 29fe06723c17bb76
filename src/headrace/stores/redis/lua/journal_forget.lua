-- Forget a consumer of a journal.
--
-- uses     shard
-- keys     the `m` key of a shard
-- args     number of shards, consumer; then 0
-- answers  nil when the shard does not exist, else 1 when it was known, or 0
-- flags    allow-oom
local function run(keys, args)
  local found, refusal = shard.read(keys, args[1])
  if refusal then
    return refusal
  end
  local s = found[1]
  if not s then
    return { false }
  end
  return { call('HDEL', s.names.consumers, args[2]) }
end
