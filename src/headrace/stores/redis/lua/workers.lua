-- The workers that were seen recently.
--
-- uses     shard
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or '', for how many ms a worker is shown; then 0 per shard
-- answers  per shard: nil where it does not exist, else worker and when it was seen in turn
-- flags    no-writes
local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.read(keys, args[1], now)
  if refusal then
    return refusal
  end
  local since, answers = format('(%.0f', now - tonumber(args[3])), {}
  for index, s in ipairs(found) do
    answers[index] = s and call('ZRANGE', s.names.workers_seen, since, '+inf', 'BYSCORE', 'WITHSCORES')
  end
  return answers
end
