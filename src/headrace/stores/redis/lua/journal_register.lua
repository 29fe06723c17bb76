-- Register a consumer of a journal; a known one keeps its offset.
--
-- uses     numbers, shard
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', consumer, offset (the last seq that it has read), 1 to hold back retention
--          or 0; then 0
-- answers  nil when the shard does not exist; the last seq when the offset is beyond it; else seq, hold, seen_at_ms
-- flags
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
  if tonumber(args[4]) > s.counters.seq then
    return { { numbers.text(s.counters.seq) } }
  end
  local known = call('HGET', s.names.consumers, args[3])
  local seq, seen = known and string.match(known, '^%d+') or args[4], numbers.text(now)
  call('HSET', s.names.consumers, args[3], seq .. ' ' .. args[5] .. ' ' .. seen)
  return { { seq, args[5], seen } }
end
