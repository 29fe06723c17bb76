-- Whether one of some jobs has ended: is not live, or has a finished job. Where none has, publish ends from now on.
--
-- uses     numbers, shard, finished_jobs
-- keys     the `m` keys of shards of one queue
-- args     number of shards, for how many milliseconds to publish ends; per shard: how many ids, and these
-- answers  per shard: nil where it does not exist, else 1 when one has ended, or 0
-- flags    allow-oom
local function has_ended(s, id, has_finished_jobs)
  if call('HEXISTS', s.names.bodies, id) == 0 then
    return true
  end
  local packed = has_finished_jobs and call('HGET', s.names.finished, id)
  return packed and finished_jobs.until_ms(packed) > s.now
end

local function has_any_ended(s, args, first, last)
  local has_finished_jobs = s.counters.done + s.counters.cancelled > 0
  for at = first, last do
    if has_ended(s, args[at], has_finished_jobs) then
      return true
    end
  end
  return false
end

local function run(keys, args)
  local now, publish_ms = shard.now(''), tonumber(args[2])
  local found, refusal = shard.read(keys, args[1], now)
  if refusal then
    return refusal
  end
  local answers, at = {}, 3
  for i, s in ipairs(found) do
    local last = at + tonumber(args[at])
    if not s then
      answers[i] = false
    elseif has_any_ended(s, args, at + 1, last) then
      answers[i] = 1
    else
      answers[i] = 0
      -- Renewed only when half of the time is over, so that few of many waiting clients write.
      if publish_ms > 0 and (tonumber(s.awaited_until or 0) or 0) < now + publish_ms / 2 then
        call('HSET', s.names.meta, 'awaited', numbers.text(now + publish_ms))
      end
    end
    at = last + 1
  end
  return answers
end
