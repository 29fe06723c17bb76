-- The finished job of an id.
--
-- uses     numbers, shard
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', id; then 0
-- answers  nil when the shard does not exist, else now_ms and the finished job or nil
-- flags    no-writes
local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.read(keys, args[1], now)
  if refusal then
    return refusal
  end
  return { found[1] and { numbers.text(now), call('HGET', found[1].names.finished, args[3]) } }
end
