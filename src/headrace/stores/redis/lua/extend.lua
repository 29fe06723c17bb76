-- Extend leases that hold.
--
-- uses     numbers, chunked, shard, step, settle
-- keys     the `m` keys of shards
-- args     now_ms or '', lease_ms; the number of shards for each key; then per key: how many leases, and per lease: id;
--          token and \0
-- answers  now_ms; then per key: nil where the shard does not exist, else a character for each lease: 'x' extended,
--          'X' extended and the job is to stop, 'n' not active, 'e' expired, 'm' mismatch
-- flags    allow-oom
local function extend(s, args, at, count, lease_ms)
  local ids, statuses = {}, {}
  for i = 1, count do
    ids[i] = args[at + (i - 1) * 2]
  end
  local deliveries, ends = chunked.get_values(s.names.deliveries, ids), settle.lease_ends(s, ids)
  local end_ms = numbers.text(s.now + lease_ms)
  for i, id in ipairs(ids) do
    local refusal = settle.refusal(s, deliveries[i], ends and ends[i], args[at + (i - 1) * 2 + 1])
    if not refusal then
      s.leases[id] = end_ms
    end
    statuses[i] = refusal or (byte(deliveries[i]) == 49 and 'X' or 'x')
  end
  step.commit(s)
  return concat(statuses)
end

local function run(keys, args)
  local now = shard.now(args[1])
  local found, refusal = shard.open(keys, slice(args, 3, 2 + #keys), now)
  if refusal then
    return refusal
  end
  local at, answers = 3 + #keys, { now }
  for i, s in ipairs(found) do
    local count = tonumber(args[at])
    answers[i + 1] = s and extend(s, args, at + 1, count, tonumber(args[2]))
    at = at + 1 + count * 2
  end
  return answers
end
