-- Settle, then claim.
--
-- keys     the `m` keys of shards to settle on, then of those to claim from in the order of visiting
-- args     now_ms or ''; how many of the keys are to settle on; worker, nonce, lease_ms, limit and bytes as claim has them;
--          the number of shards for each key; then the settlements per key as settle has them
-- answers  the answer of settle, the answer of claim
-- flags    allow-oom
local function run(keys, args)
  local now, count = shard.now(args[1]), tonumber(args[2])
  local shards = slice(args, 8, 7 + #keys)
  -- All of them first: a wrong number of shards in the claim must refuse before anything is settled.
  local found, refusal = shard.open(keys, shards, now)
  if refusal then
    return refusal
  end
  local settled = settling.settle_all(slice(found, 1, count), args, 8 + #keys)
  -- A shard may be settled on and claimed from: what settling has changed is read again.
  local to_claim = shard.open(slice(keys, count + 1, #keys), slice(shards, count + 1, #keys), now)
  local request = handing.request_of(args, 3)
  return { settled, handing.claim(to_claim, request, now, tonumber(args[6]), tonumber(args[7])) }
end
