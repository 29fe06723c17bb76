-- Settle, then claim.
--
-- uses     shard, settle, claim
-- keys     the `m` keys of shards to settle on, then of those to claim from in the order of visiting
-- args     now_ms or ''; how many keys are to settle on; worker, nonce, lease_ms, limit and bytes as claim.lua takes
--          them; the number of shards for each key; then the settlements per key as settle.lua takes them
-- answers  the answer of settle.lua, the answer of claim.lua
-- flags    allow-oom
local function run(keys, args)
  local now, count = shard.now(args[1]), tonumber(args[2])
  local shards = slice(args, 8, 7 + #keys)
  -- All shards first: a wrong number of shards in the claim must refuse before anything is settled.
  local found, refusal = shard.open(keys, shards, now)
  if refusal then
    return refusal
  end
  local settled = settle.settle_all(slice(found, 1, count), found, args, 8 + #keys)
  local to_claim = {}
  for i = count + 1, #keys do
    -- The same steps again, since a shard has only one; a death may have created a shard that did not exist.
    local s = found[i] or shard.open({ keys[i] }, shards[i], now)[1]
    if s then
      shard.reset_decisions(s)
    end
    to_claim[i - count] = s
  end
  local request = claim.read_request(args, 3)
  return { settled, claim.claim_shards(to_claim, request, now, tonumber(args[6]), tonumber(args[7])) }
end
