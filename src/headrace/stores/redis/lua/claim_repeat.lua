-- Whether a claim was answered before, and what it was handed and still holds; for a claim over several servers.
--
-- keys     the `m` keys of shards
-- args     now_ms or ''; worker, nonce, 1 to say what is held whether it is known here or not; the number of shards for
--          each key
-- answers  now_ms; then per shard nil when it is not there, 0 when it does not know the nonce, else what claim says of it
-- flags    no-writes
local function run(keys, args)
  local now = shard.now(args[1])
  local found, refusal = shard.look(keys, slice(args, 5, #args), now)
  if refusal then
    return refusal
  end
  local request, answers = { worker = args[2], nonce = args[3] }, { now }
  for i, s in ipairs(found) do
    if s and (args[4] == '1' or handing.is_known(s, request)) then
      answers[i + 1] = handing.held_by(s, request)
    else
      answers[i + 1] = s and 0
    end
  end
  return answers
end
