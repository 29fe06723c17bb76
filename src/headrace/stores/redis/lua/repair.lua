-- The background sweep: repair expired leases, and drop what has expired.
--
-- uses     shard, sweep
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or '', limit of repairs per shard; then 0 per shard
-- answers  per shard: nil where it does not exist, else how many leases had expired, how many records were dropped, 1
--          when a bound was reached, and 1 when a death created its fail queue
-- flags    allow-oom
local function run(keys, args)
  local now, limit = shard.now(args[2]), tonumber(args[3])
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local answers = {}
  for i, s in ipairs(found) do
    answers[i] = s and sweep.sweep_shard(s, limit)
  end
  return answers
end
