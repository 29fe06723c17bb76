-- Finished jobs: the records of done and cancelled jobs, at most one per id.
--
-- uses  job_codec, chunked
--
-- Packed: 'd' or 'c' · pinned '0' or '1' · ended_at 6 · until 6 · number 6 · head of the body · result, with a byte
-- before it so that an empty result differs from none. A job with a time to live for its result is pinned.
--
-- The list `ol` has the unpinned ones, newest first: an id that is done, or a zero and an id that was cancelled, so
-- that a sweep by count need not read the finished jobs. Its first entry has the number `finished_number`, and no entry
-- is removed from the middle, so a number leads to an entry; all finished jobs of a call are packed with the number of
-- the first, so that it is packed once. A finished job that is dropped early leaves an empty entry. A sorted set would
-- cost three times as much. The sorted set `op` has the pinned ones by the end of their time, `oq` by a number that grows:
-- that of an event of the call, which has one for each job.

local finished_jobs = {}

local UNTIL_AT, NUMBER_AT = 9, 15
local CHUNK = 100

finished_jobs.HEAD_AT = NUMBER_AT + 6

function finished_jobs.state(packed)
  return byte(packed) == 100 and 'done' or 'cancelled'
end

function finished_jobs.until_ms(packed)
  return (struct_unpack('>I6', packed, UNTIL_AT))
end

-- The same finished job without its result.
function finished_jobs.without_result(packed)
  local at = finished_jobs.HEAD_AT
  return sub(packed, 1, at - 1 + job_codec.head_size(sub(packed, at, at + 21)))
end

-- Keep a finished job, 'd' or 'c', for as long as the job or its queue says. `head` may be a whole body. An id ends
-- only once in a call.
function finished_jobs.put(s, id, head, state, result)
  local cfg = s.cfg
  local pin_ms = cfg.result_ttl_ms
  if byte(head, 24) ~= 0 then
    pin_ms = job_codec.policy_in_force(head, 'result_ttl_ms', cfg)
  end
  local keep_ms = pin_ms > 0 and pin_ms or (cfg.keep_done_max > 0 and cfg.keep_done_ms or 0)
  if keep_ms == 0 then
    -- Drop an older finished job of this id: the id ended before a blocked job became its job.
    finished_jobs.drop(s, id)
    return
  end
  local counters, finished, until_ms = s.counters, s.finished, s.now + keep_ms
  if counters.over_at == 0 or until_ms < counters.over_at then
    counters.over_at = until_ms
  end
  if not finished then
    finished = { unpinned = {}, pinned = {}, pinned_order = {}, done = 0 }
    s.finished = finished
  end
  local start = finished.start
  if pin_ms > 0 then
    start = struct_pack('>c1I6I6I6', '1', s.now, until_ms, 0)
    local n = #finished.pinned
    finished.pinned[n + 1], finished.pinned[n + 2] = until_ms, id
    finished.pinned_order[n + 1], finished.pinned_order[n + 2] = counters.seq + n / 2 + 1, id
  else
    counters.finished_number = counters.finished_number + 1
    if not start then
      start = struct_pack('>c1I6I6I6', '0', s.now, until_ms, counters.finished_number)
      finished.start = start
    end
    finished.unpinned[#finished.unpinned + 1] = state == 'd' and id or '\0' .. id
  end
  if state == 'd' then
    finished.done = finished.done + 1
  end
  local n = #finished
  finished[n + 1] = id
  finished[n + 2] = result and concat({ state, start, head, '\1', result }) or state .. start .. head
end

-- Drop the finished job of an id, if there is one.
function finished_jobs.drop(s, id)
  s.finished_drops = s.finished_drops or {}
  s.finished_drops[#s.finished_drops + 1] = id
end

local function change_count(s, packed, change)
  local counters = s.counters
  if byte(packed) == 100 then
    counters.done = counters.done + change
  else
    counters.cancelled = counters.cancelled + change
  end
end

local function id_of(entry)
  return byte(entry) == 0 and sub(entry, 2) or entry
end
finished_jobs.id_of = id_of

-- Empty an entry of the list. `newest` is the number of its first entry, `first` the number of the first job that ended
-- in the same call, which ended at most a batch.
local function empty_list_entry(s, id, newest, first)
  local from = math.max(newest - first - LIMITS.batch_max + 1, 0)
  local entries = call('LRANGE', s.names.finished_unpinned, from, newest - first)
  for i = 1, #entries do
    if id_of(entries[i]) == id then
      call('LSET', s.names.finished_unpinned, from + i - 1, '')
      return
    end
  end
end

-- Remove the existing ones among some finished jobs from list, sorted set and counts; returns their ids. `newest` is
-- the number of the first entry of the list.
local function remove_from_order(s, ids, newest)
  local found = chunked.get_values(s.names.finished, ids)
  local existing, pinned = {}, {}
  for i = 1, #ids do
    local old = found[i]
    if old then
      change_count(s, old, -1)
      existing[#existing + 1] = ids[i]
      if byte(old, 2) == 49 then
        pinned[#pinned + 1] = ids[i]
      else
        empty_list_entry(s, ids[i], newest, (struct_unpack('>I6', old, NUMBER_AT)))
      end
    end
  end
  chunked.run('ZREM', s.names.finished_pinned, pinned, #pinned)
  chunked.run('ZREM', s.names.finished_pinned_order, pinned, #pinned)
  return existing
end

local function put_all(s, finished)
  local counters = s.counters
  counters.done, counters.cancelled = counters.done + finished.done, counters.cancelled + #finished / 2 - finished.done
  chunked.run('HSET', s.names.finished, finished, #finished)
  chunked.run('LPUSH', s.names.finished_unpinned, finished.unpinned, #finished.unpinned)
  chunked.run('ZADD', s.names.finished_pinned, finished.pinned, #finished.pinned)
  chunked.run('ZADD', s.names.finished_pinned_order, finished.pinned_order, #finished.pinned_order)
end

-- Write the finished jobs of a call, and its drops.
function finished_jobs.write(s)
  local counters, ids = s.counters, s.finished_drops
  if counters.done + counters.cancelled > 0 and (ids or s.finished) then
    local newest = s.finished_number_before
    if ids then
      local dropped = remove_from_order(s, ids, newest)
      chunked.run('HDEL', s.names.finished, dropped, #dropped)
    end
    if counters.freed > 0 then
      -- Only a job that was a blocked job may have an older finished job: creating an id drops its finished job.
      ids = {}
      for i = 1, s.finished and #s.finished or 0, 2 do
        ids[#ids + 1] = s.finished[i]
      end
      remove_from_order(s, ids, newest)
    end
    if counters.done + counters.cancelled == 0 then
      call('UNLINK', s.names.finished_unpinned)
    end
  end
  if s.finished then
    put_all(s, s.finished)
  end
  s.finished, s.finished_drops = nil, nil
end

-- Drop finished jobs that are no longer in list or sorted set.
local function drop_unlisted(s, ids, found)
  for i = 1, #ids do
    if found[i] then
      change_count(s, found[i], -1)
    end
  end
  chunked.run('HDEL', s.names.finished, ids, #ids)
end

-- Entries of the list from the `first` oldest on, oldest first.
local function oldest_entries(s, first, count)
  local entries = call('LRANGE', s.names.finished_unpinned, -first - count + 1, -first)
  local n = #entries
  for i = 1, floor(n / 2) do
    entries[i], entries[n + 1 - i] = entries[n + 1 - i], entries[i]
  end
  return entries
end

-- The ids of the oldest unpinned finished jobs, at most `limit`.
function finished_jobs.oldest_ids(s, limit)
  local ids, first, entries = {}, 1, nil
  while #ids < limit and (not entries or #entries == LIMITS.batch_max) do
    entries = oldest_entries(s, first, LIMITS.batch_max)
    first = first + #entries
    for i = 1, #entries do
      if entries[i] ~= '' and #ids < limit then
        ids[#ids + 1] = id_of(entries[i])
      end
    end
  end
  return ids
end

-- Drop the `surplus` oldest unpinned ones; skips empty entries, a bounded number in a call.
local function sweep_surplus(s, surplus)
  local ids, n, done, skipped = {}, 0, 0, 0
  while n < surplus and skipped < LIMITS.sweep_per_call_max do
    local entries = call('RPOP', s.names.finished_unpinned, surplus - n)
    if not entries then
      break
    end
    for i = 1, #entries do
      local entry = entries[i]
      if entry == '' then
        skipped = skipped + 1
      else
        n = n + 1
        if byte(entry) == 0 then
          ids[n] = sub(entry, 2)
        else
          ids[n], done = entry, done + 1
        end
      end
    end
  end
  s.counters.done, s.counters.cancelled = s.counters.done - done, s.counters.cancelled - (n - done)
  chunked.run('HDEL', s.names.finished, ids, n)
  return n
end

-- The expired ones among entries, oldest first: their ids; the finished jobs; how many entries these are, with the
-- empty ones among them; whether there may be more.
local function expired_of(s, entries)
  local ids = {}
  for i = 1, #entries do
    if entries[i] ~= '' then
      ids[#ids + 1] = id_of(entries[i])
    end
  end
  local found = chunked.get_values(s.names.finished, ids)
  local expired, passed = {}, 0
  for i = 1, #entries do
    if entries[i] ~= '' then
      local packed = found[#expired + 1]
      if packed and finished_jobs.until_ms(packed) > s.now then
        return expired, found, passed, false
      end
      expired[#expired + 1] = ids[#expired + 1]
    end
    passed = i
  end
  return expired, found, passed, passed > 0
end

-- Drop the oldest unpinned ones whose time is over.
local function sweep_expired(s, limit)
  local swept, passed, size, is_more = 0, 0, 1, true
  while is_more and swept < limit and passed < LIMITS.sweep_per_call_max * 2 do
    local expired, found, count
    expired, found, count, is_more = expired_of(s, oldest_entries(s, 1, math.min(limit - swept, size)))
    if count > 0 then
      call('LTRIM', s.names.finished_unpinned, 0, -count - 1)
      drop_unlisted(s, expired, found)
      swept, passed = swept + #expired, passed + count
    end
    size = CHUNK
  end
  return swept
end

local function sweep_pinned(s, limit)
  local ids = call('ZRANGE', s.names.finished_pinned, '-inf', s.now, 'BYSCORE', 'LIMIT', 0, limit)
  if #ids > 0 then
    local found = chunked.get_values(s.names.finished, ids)
    chunked.run('ZREM', s.names.finished_pinned, ids, #ids)
    chunked.run('ZREM', s.names.finished_pinned_order, ids, #ids)
    drop_unlisted(s, ids, found)
  end
  return #ids
end

-- The instant before which no finished job expires: the earlier end of the oldest unpinned and the first pinned one. 0
-- lets the next call look again.
local function first_end(s)
  local oldest = call('LRANGE', s.names.finished_unpinned, '-1', '-1')[1]
  local packed = oldest and call('HGET', s.names.finished, id_of(oldest))
  if oldest and not packed then
    return 0
  end
  local pinned = call('ZRANGE', s.names.finished_pinned, '0', '0', 'WITHSCORES')[2]
  local first = packed and finished_jobs.until_ms(packed)
  local second = pinned and pinned + 0
  return first and second and math.min(first, second) or first or second or 0
end

-- Drop finished jobs beyond the queue's bounds, after those of the call were written; returns how many.
function finished_jobs.sweep(s)
  local counters, limit = s.counters, LIMITS.sweep_per_call_max
  local kept = counters.done + counters.cancelled
  if kept == 0 then
    return 0
  end
  local is_any_expired = s.now >= counters.over_at
  if not is_any_expired and kept <= s.cfg.keep_done_max then
    return 0
  end
  local pinned = call('ZCARD', s.names.finished_pinned)
  local surplus = kept - pinned - s.cfg.keep_done_max
  local swept = 0
  if surplus > 0 then
    swept = sweep_surplus(s, math.min(surplus, limit))
  end
  if is_any_expired then
    if swept < limit and kept - pinned > swept then
      swept = swept + sweep_expired(s, limit - swept)
    end
    if swept < limit and pinned > 0 then
      swept = swept + sweep_pinned(s, limit - swept)
    end
    counters.over_at = first_end(s)
  end
  return swept
end

return finished_jobs
