-- Check a part of a shard, and repair records that contradict each other.
--
-- uses     shard, integrity
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', phase, cursor, about how many records to check; then 0
-- answers  nil when the shard does not exist, else the result of integrity.walk
-- flags    allow-oom
local function run(keys, args)
  local found, refusal = shard.open(keys, args[1], shard.now(args[2]))
  if refusal then
    return refusal
  end
  local s = found[1]
  return { s and integrity.walk(s, tonumber(args[3]), args[4], tonumber(args[5]), true) }
end
