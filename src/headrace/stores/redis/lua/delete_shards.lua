-- Delete the records of shards without live jobs, a bounded number, and the shards themselves when nothing else is
-- left.
--
-- uses     numbers, chunked, journal, shard, live_jobs, finished_jobs, dead_letters, step
-- keys     the `m` keys of shards of one queue, shard 0 last
-- args     number of shards, limit of records, 1 to delete the shards themselves when nothing else is left, or 0
-- answers  how many records were deleted, and 1 when the shards were deleted, else 0; refuses `not_empty` while there
--          are waiting, blocked or active jobs
-- flags    allow-oom
local function first_members(key, limit)
  return limit > 0 and call('ZRANGE', key, 0, limit - 1) or {}
end

local function delete_finished_jobs(s, left)
  for _, ids in ipairs({ finished_jobs.oldest_ids(s, left), first_members(s.names.finished_pinned, left) }) do
    for i = 1, math.min(#ids, left) do
      finished_jobs.drop(s, ids[i])
    end
    left = math.max(left - #ids, 0)
  end
  return left
end

local function delete_dead_letters(s, left)
  local members = first_members(s.names.dead_letter_ids, left)
  for _, member in ipairs(members) do
    local at = find(member, '\0', 1, true)
    dead_letters.drop(s, numbers.text(tonumber(sub(member, at + 1))), sub(member, 1, at - 1))
  end
  return left - #members
end

-- Members of an order that are also fields of a hash.
local function delete_ordered(order, hash, left)
  local members = first_members(order, left)
  chunked.run('HDEL', hash, members, #members)
  chunked.run('ZREM', order, members, #members)
  return left - #members
end

local function delete_consumers(s, left)
  local consumers = call('HKEYS', s.names.consumers)
  local count = math.min(#consumers, left)
  chunked.run('HDEL', s.names.consumers, consumers, count)
  return left - count
end

local function delete(s, limit)
  local names = s.names
  local left = delete_dead_letters(s, delete_finished_jobs(s, limit))
  left = delete_ordered(names.idempotency_ends, names.idempotency_keys, left)
  left = delete_ordered(names.workers_seen, names.workers, left)
  left = delete_consumers(s, left)
  left = left - journal.drop(s, left, function()
    return true
  end)
  step.commit(s)
  return limit - left
end

local function count_live(s)
  return live_jobs.count_waiting(s) + call('ZCARD', s.names.leases)
end

local function run(keys, args)
  local found, refusal = shard.open(keys, args[1], shard.now(''))
  if refusal then
    return refusal
  end
  local live, limit, deleted = 0, tonumber(args[2]), 0
  for _, s in ipairs(found) do
    live = live + (s and count_live(s) or 0)
  end
  if live > 0 then
    return redis.error_reply('HEADRACE not_empty ' .. numbers.text(live))
  end
  for _, s in ipairs(found) do
    deleted = deleted + (s and delete(s, limit - deleted) or 0)
    if deleted >= limit then
      return { deleted, 0 }
    end
  end
  if args[3] == '1' then
    for _, s in ipairs(found) do
      if s then
        -- An empty stream would stay, and with it the last seq; a new shard of this name starts from the beginning.
        local names = s.names
        call('UNLINK', names.meta, names.journal, names.quarantine)
        call('UNLINK', names.bodies, names.deliveries, names.finished_unpinned)
      end
    end
  end
  return { deleted, tonumber(args[3]) }
end
