-- Purge waiting jobs, in the order in which they would be claimed.
--
-- uses     chunked, journal, shard, notify, live_jobs, step
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or '', limit for each shard
-- answers  per shard: nil where it does not exist, else how many were purged
-- flags    allow-oom
local function purge(s, limit)
  local ids = call('ZRANGE', s.names.ready, 0, limit - 1)
  for _, id in ipairs(#ids < limit and call('ZRANGE', s.names.later, 0, limit - #ids - 1) or {}) do
    ids[#ids + 1] = id
  end
  local bodies = chunked.get_values(s.names.bodies, ids)
  for i, id in ipairs(ids) do
    live_jobs.drop(s, id)
    notify.note_end(s, id)
    if bodies[i] then
      journal.add_line(s, '{"event":"purged",' .. journal.leaving_members(s, id, bodies[i]) .. '}')
    else
      live_jobs.quarantine(s, 'b', id)
    end
  end
  step.commit(s)
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
