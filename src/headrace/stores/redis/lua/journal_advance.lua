-- Move a reader's place, never back.
--
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', consumer, seq up to which it has everything; then 0
-- answers  nil when the shard is not there; nothing when the consumer is unknown; the last seq when the place lies behind
--          it; else seq, hold, seen_at_ms
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
  local known = call('HGET', s.names.jc, args[3])
  if not known then
    return { {} }
  end
  if tonumber(args[4]) > s.head.seq then
    return { { body.text(s.head.seq) } }
  end
  local seq, hold = string.match(known, '^(%d+) (%d)')
  local seen = body.text(now)
  if tonumber(args[4]) > tonumber(seq) then
    seq = args[4]
  end
  call('HSET', s.names.jc, args[3], seq .. ' ' .. hold .. ' ' .. seen)
  return { { seq, hold, seen } }
end
