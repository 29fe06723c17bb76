-- End deliveries, each only while its lease holds.
--
-- uses     shard, settle
-- keys     the `m` keys of shards
-- args     now_ms or ''; the number of shards for each key; then per key: worker of the first settlement, outcome
--          codes, '' or the lines of all, and the settlements, as parts/settle.lua reads them
-- answers  the flags of death.fail_queue_flags; then per key: nil where the shard does not exist, else a character for
--          each settlement ('D' done, 'R' retried, 'L' released, 'X' dead, 'C' cancelled, 'n' not active, 'e' expired,
--          'm' mismatch), then run_at_ms of each 'R' and 'L' and the dead letter of each 'X', in order
-- flags    allow-oom
local function run(keys, args)
  local now = shard.now(args[1])
  local found, refusal = shard.open(keys, slice(args, 2, 1 + #keys), now)
  if refusal then
    return refusal
  end
  return settle.settle_all(found, found, args, 2 + #keys)
end
