-- The jobs of a claim that was answered before, as far as they are still leased; for a claim over several servers.
--
-- uses     shard, claim
-- keys     the `m` keys of shards
-- args     now_ms or ''; worker, nonce, 1 to answer also where the nonce is unknown; the number of shards for each key
-- answers  now_ms; then per shard nil where it does not exist, 0 where the nonce is unknown, else as claim.lua answers
-- flags    no-writes
local function run(keys, args)
  local now = shard.now(args[1])
  local found, refusal = shard.read(keys, slice(args, 5, #args), now)
  if refusal then
    return refusal
  end
  local request, answers = { worker = args[2], nonce = args[3] }, { now }
  for i, s in ipairs(found) do
    if s and (args[4] == '1' or claim.is_repeated(s, request)) then
      answers[i + 1] = claim.earlier_claims(s, request)
    else
      answers[i + 1] = s and 0
    end
  end
  return answers
end
