-- End waiting jobs and blocked jobs; ask active jobs to stop.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or '', 1 to ask active ones as well; per shard: how many ids, and these
-- answers  per shard: nil for one that is not there, else a character for each id: 'c' cancelled, 'k' asked, 'a' active,
--          'n' not found; 'C' and 'K' when a blocked job was ended
-- flags    allow-oom
local function gone(s, id, packed, reason)
  journal.note(s, '{"event":"cancelled",' .. journal.leaving(s, id, packed) .. (reason or '') .. '}')
end

local function ask(s, id, delivery)
  if byte(delivery) == 49 then
    return
  end
  s.A[id] = '1' .. sub(delivery, 2)
  local parts = body.delivery(delivery)
  journal.note(s, '{"event":"asked","id":' .. json.quote(id)
    .. ',"fence":' .. body.text(parts.fence)
    .. ',"worker":' .. json.quote(parts.worker) .. '}')
end

local function cancel_one(s, id, is_running_too)
  local packed = waiting.body(s, id)
  if not packed then
    return 'n'
  end
  local delivery = waiting.delivery(s, id)
  if not delivery then
    waiting.drop(s, id)
    finished_job.put(s, id, body.head(packed), 'c')
    telling.note(s, id)
    gone(s, id, packed)
    return 'c'
  end
  local blocked_job = blocked_jobs.get(s, id)
  if blocked_job then
    s.T[id] = false
    gone(s, id, blocked_jobs.body(blocked_job), ',"reason":"blocked"')
  end
  if is_running_too then
    ask(s, id, delivery)
    return blocked_job and 'K' or 'k'
  end
  return blocked_job and 'C' or 'a'
end

local function run(keys, args)
  local now, is_running_too = shard.now(args[2]), args[3] == '1'
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local at, answers = 4, {}
  for i, s in ipairs(found) do
    local count, statuses = tonumber(args[at]), {}
    if s then
      for offset = 1, count do
        statuses[offset] = cancel_one(s, args[at + offset], is_running_too)
      end
      s.is_sweeping = true
      finish(s)
    end
    answers[i] = s and concat(statuses)
    at = at + 1 + count
  end
  return answers
end
