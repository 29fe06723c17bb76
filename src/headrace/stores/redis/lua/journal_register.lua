-- Remember a reader of a journal; a known one keeps its place.
--
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', consumer, seq up to which it has everything, 1 to be waited for or 0; then 0
-- answers  nil when the shard is not there; the last seq when the place lies behind it; else seq, hold, seen_at_ms
-- flags
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
  if tonumber(args[4]) > s.head.seq then
    return { { body.text(s.head.seq) } }
  end
  local known = call('HGET', s.names.jc, args[3])
  local seq, seen = known and string.match(known, '^%d+') or args[4], body.text(now)
  call('HSET', s.names.jc, args[3], seq .. ' ' .. args[5] .. ' ' .. seen)
  return { { seq, args[5], seen } }
end
