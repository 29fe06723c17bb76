-- Delete what is left of shards without live jobs, and the shards themselves when that is all.
--
-- keys     the `m` keys of shards of one queue, shard 0 last
-- args     number of shards, limit of rows, 1 to forget the shards when nothing else is left, or 0
-- answers  how many rows went, and whether the shards were forgotten; refuses `not_empty` when jobs wait, are blocked or run
-- flags    allow-oom
local function first_of(key, limit)
  return limit > 0 and call('ZRANGE', key, 0, limit - 1) or {}
end

local function erase_finished_jobs(s, left)
  for _, ids in ipairs({ finished_job.oldest_ids(s, left), first_of(s.names.op, left) }) do
    for i = 1, math.min(#ids, left) do
      finished_job.drop(s, ids[i])
    end
    left = math.max(left - #ids, 0)
  end
  return left
end

local function erase_dead_letters(s, left)
  local members = first_of(s.names.di, left)
  for _, member in ipairs(members) do
    local at = find(member, '\0', 1, true)
    dead_letters.drop(s, body.text(tonumber(sub(member, at + 1))), sub(member, 1, at - 1))
  end
  return left - #members
end

-- Members of an order that are also fields of a hash.
local function erase_ordered(order, hash, left)
  local members = first_of(order, left)
  waiting.each_chunk('HDEL', hash, members, #members)
  waiting.each_chunk('ZREM', order, members, #members)
  return left - #members
end

local function erase_consumers(s, left)
  local consumers = call('HKEYS', s.names.jc)
  local count = math.min(#consumers, left)
  waiting.each_chunk('HDEL', s.names.jc, consumers, count)
  return left - count
end

local function erase(s, limit)
  local named = s.names
  local left = erase_dead_letters(s, erase_finished_jobs(s, limit))
  left = erase_ordered(named.ws, named.w, erase_ordered(named.kx, named.k, left))
  left = erase_consumers(s, left)
  left = left - journal.drop(s, left, function()
    return true
  end)
  finish(s)
  return limit - left
end

local function live_of(s)
  return waiting.held(s) + call('ZCARD', s.names.x)
end

local function run(keys, args)
  local found, refused = shard.open(keys, args[1], shard.now(''))
  if refused then
    return refused
  end
  local live, limit, erased = 0, tonumber(args[2]), 0
  for _, s in ipairs(found) do
    live = live + (s and live_of(s) or 0)
  end
  if live > 0 then
    return redis.error_reply('HEADRACE not_empty ' .. body.text(live))
  end
  for _, s in ipairs(found) do
    erased = erased + (s and erase(s, limit - erased) or 0)
    if erased >= limit then
      return { erased, 0 }
    end
  end
  if args[3] == '1' then
    for _, s in ipairs(found) do
      if s then
        -- A stream stays when it is empty, and with it the last seq: the next shard of this name starts anew.
        call('UNLINK', s.names.m, s.names.j, s.names.q, s.names.b, s.names.a, s.names.ol)
      end
    end
  end
  return { erased, tonumber(args[3]) }
end
