-- Cancel waiting jobs and blocked jobs, and request that active jobs stop.
--
-- uses     json, numbers, job_codec, journal, shard, notify, live_jobs, finished_jobs, blocked_jobs, step
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or '', 1 to request it of active ones as well; per shard: how many ids, and these
-- answers  per shard: nil where it does not exist, else a character for each id: 'c' cancelled, 'k' requested, 'a'
--          active, 'n' not found; 'C' and 'K' where a blocked job was cancelled
-- flags    allow-oom
local function note_cancelled(s, id, packed, reason)
  journal.add_line(s, '{"event":"cancelled",' .. journal.leaving_members(s, id, packed) .. (reason or '') .. '}')
end

local function request_cancel(s, id, delivery)
  if byte(delivery) == 49 then
    return
  end
  s.deliveries[id] = '1' .. sub(delivery, 2)
  local decoded = job_codec.delivery(delivery)
  journal.add_line(s, '{"event":"asked","id":' .. json.quote(id)
    .. ',"fence":' .. numbers.text(decoded.fence)
    .. ',"worker":' .. json.quote(decoded.worker) .. '}')
end

local function cancel_one(s, id, include_active)
  local packed = live_jobs.get_body(s, id)
  if not packed then
    return 'n'
  end
  local delivery = live_jobs.get_delivery(s, id)
  if not delivery then
    live_jobs.drop(s, id)
    finished_jobs.put(s, id, job_codec.head(packed), 'c')
    notify.note_end(s, id)
    note_cancelled(s, id, packed)
    return 'c'
  end
  local blocked_job = blocked_jobs.get(s, id)
  if blocked_job then
    s.blocked[id] = false
    note_cancelled(s, id, blocked_jobs.body_of(blocked_job), ',"reason":"blocked"')
  end
  if include_active then
    request_cancel(s, id, delivery)
    return blocked_job and 'K' or 'k'
  end
  return blocked_job and 'C' or 'a'
end

local function run(keys, args)
  local now, include_active = shard.now(args[2]), args[3] == '1'
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local at, answers = 4, {}
  for i, s in ipairs(found) do
    local count, statuses = tonumber(args[at]), {}
    if s then
      for offset = 1, count do
        statuses[offset] = cancel_one(s, args[at + offset], include_active)
      end
      s.must_sweep = true
      step.commit(s)
    end
    answers[i] = s and concat(statuses)
    at = at + 1 + count
  end
  return answers
end
