-- End deliveries, each only while its lease holds.
--
-- keys     the `m` keys of shards
-- args     now_ms or ''; the number of shards for each key; then per key: worker of the first settlement, how each
--          ended, '' or the lines of all, and per settlement: id, token, line and what its outcome adds, as
--          parts/settle.lua has them
-- answers  for each shard what its deaths did to the fail queue (dying.handed_on); then per key: nil for a shard that is not there,
--          else a character for each settlement ('D' done, 'R' retried, 'L' released, 'X' dead, 'C' cancelled, 'n' not
--          active, 'e' expired, 'm' mismatch), then run_at_ms of each 'R' and 'L' and the dead letter of each 'X', in order
-- flags    allow-oom
local function run(keys, args)
  local now = shard.now(args[1])
  local found, refusal = shard.open(keys, slice(args, 2, 1 + #keys), now)
  if refusal then
    return refusal
  end
  return settling.settle_all(found, found, args, 2 + #keys)
end
