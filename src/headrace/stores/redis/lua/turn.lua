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
  local settled = settling.settle_all(slice(found, 1, count), found, args, 8 + #keys)
  local to_claim = {}
  for i = count + 1, #keys do
    -- What settling has decided is known here, since a shard is opened once; a death may have made one that was not there.
    local s = found[i] or shard.open({ keys[i] }, shards[i], now)[1]
    if s then
      shard.renew(s)
    end
    to_claim[i - count] = s
  end
  local request = handing.request_of(args, 3)
  return { settled, handing.claim(to_claim, request, now, tonumber(args[6]), tonumber(args[7])) }
end
