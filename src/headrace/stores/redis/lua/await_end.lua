-- Whether one of some jobs has ended: neither waits nor runs, or has a finished job that is kept. Where none has, ends are told
-- from now on.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards, for how many milliseconds ends are to be told; per shard: how many ids, and these
-- answers  per shard: nil for one that is not there, else 1 when one has ended, or 0
-- flags    allow-oom
local function is_over(s, id, has_finished_jobs)
  if call('HEXISTS', s.names.b, id) == 0 then
    return true
  end
  local packed = has_finished_jobs and call('HGET', s.names.o, id)
  return packed and finished_job.until_ms(packed) > s.now
end

local function are_over(s, args, first, last)
  local has_finished_jobs = s.head.done + s.head.cancelled > 0
  for at = first, last do
    if is_over(s, args[at], has_finished_jobs) then
      return true
    end
  end
  return false
end

local function run(keys, args)
  local now, tell_ms = shard.now(''), tonumber(args[2])
  local found, refused = shard.look(keys, args[1], now)
  if refused then
    return refused
  end
  local answers, at = {}, 3
  for i, s in ipairs(found) do
    local last = at + tonumber(args[at])
    if not s then
      answers[i] = false
    elseif are_over(s, args, at + 1, last) then
      answers[i] = 1
    else
      answers[i] = 0
      -- Half of it has to be left, so that of many who wait few have to write.
      if tell_ms > 0 and (tonumber(s.awaited or 0) or 0) < now + tell_ms / 2 then
        call('HSET', s.names.m, 'awaited', body.text(now + tell_ms))
      end
    end
    at = last + 1
  end
  return answers
end
