-- The finished job of a job.
--
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', id; then 0
-- answers  nil when the shard is not there, else now_ms and the finished job or nil
-- flags    no-writes
local function run(keys, args)
  local now = shard.now(args[2])
  local found, refused = shard.look(keys, args[1], now)
  if refused then
    return refused
  end
  return { found[1] and { body.text(now), call('HGET', found[1].names.o, args[3]) } }
end
