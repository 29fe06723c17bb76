-- Drop entries beyond the queue's retention, oldest first.
--
-- uses     journal, shard
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', limit; then 0
-- answers  nil when the shard does not exist, else how many were dropped
-- flags    allow-oom
local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local dropped = journal.trim(s, tonumber(args[3]))
  shard.save(s)
  return { dropped }
end
