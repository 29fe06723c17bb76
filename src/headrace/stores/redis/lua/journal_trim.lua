-- Drop entries beyond the queue's retention, oldest first.
--
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', limit; then 0
-- answers  nil when the shard is not there, else how many were dropped
-- flags    allow-oom
local function run(keys, args)
  local now = shard.now(args[2])
  local found, refused = shard.open(keys, args[1], now)
  if refused then
    return refused
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local dropped = journal.trim(s, tonumber(args[3]))
  shard.save(s)
  return { dropped }
end
