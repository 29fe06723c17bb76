-- Move the offset of a journal consumer, never back.
--
-- uses     numbers, shard
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', consumer, offset (the last seq that it has read); then 0
-- answers  nil when the shard does not exist; an empty list when the consumer is unknown; the last seq when the offset
--          is beyond it; else seq, hold, seen_at_ms
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
  local known = call('HGET', s.names.consumers, args[3])
  if not known then
    return { {} }
  end
  if tonumber(args[4]) > s.counters.seq then
    return { { numbers.text(s.counters.seq) } }
  end
  local seq, hold = string.match(known, '^(%d+) (%d)')
  local seen = numbers.text(now)
  if tonumber(args[4]) > tonumber(seq) then
    seq = args[4]
  end
  call('HSET', s.names.consumers, args[3], seq .. ' ' .. hold .. ' ' .. seen)
  return { { seq, hold, seen } }
end
