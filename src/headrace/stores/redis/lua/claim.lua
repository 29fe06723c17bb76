-- Repair expired leases, promote jobs that are due, and hand out ready jobs under leases.
--
-- uses     shard, claim
-- keys     the `m` keys of shards in the order of visiting
-- args     now_ms or ''; worker, nonce, lease_ms, limit, bytes of payloads at most; the number of shards for each key
-- answers  the flags of death.fail_queue_flags; 1 when the nonce was answered before, else 0; now_ms; when to claim
--          again or nil; then per shard nil where it does not exist or was not visited, else the queue's priority and
--          timeout_ms, the fence of the first job, and a list: id and body in turn, fences counting up; or, when the
--          nonce was answered before: id, body, fence, claimed_at_ms and end of the lease in turn
-- flags    allow-oom
local function run(keys, args)
  local now = shard.now(args[1])
  local found, refusal = shard.open(keys, slice(args, 7, #args), now)
  if refusal then
    return refusal
  end
  return claim.claim_shards(found, claim.read_request(args, 2), now, tonumber(args[5]), tonumber(args[6]))
end
