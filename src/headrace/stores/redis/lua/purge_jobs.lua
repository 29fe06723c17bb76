-- Drop waiting jobs, in the order in which they would be handed out.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or '', at most how many in each
-- answers  per shard: nil for one that is not there, else how many were dropped
-- flags    allow-oom
local function purge(s, limit)
  local ids = call('ZRANGE', s.names.r, 0, limit - 1)
  for _, id in ipairs(#ids < limit and call('ZRANGE', s.names.l, 0, limit - #ids - 1) or {}) do
    ids[#ids + 1] = id
  end
  local bodies = waiting.get_all(s.names.b, ids)
  for i, id in ipairs(ids) do
    waiting.drop(s, id)
    telling.note(s, id)
    if bodies[i] then
      journal.note(s, '{"event":"purged",' .. journal.leaving(s, id, bodies[i]) .. '}')
    else
      waiting.quarantine(s, 'b', id)
    end
  end
  finish(s)
  return #ids
end

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local answers = {}
  for i, s in ipairs(found) do
    answers[i] = s and purge(s, tonumber(args[3]))
  end
  return answers
end
