-- Finished jobs: what is kept of jobs that are done or cancelled, at most one per id.
--
-- Packed: 'd' or 'c' · pinned '0' or '1' · ended_at 6 · until 6 · number 6 · head of the body · result, with a byte before
-- it so that an empty one differs from none.
--
-- `ol` lists unpinned ones, newest first: the id of a job that is done, a zero and the id of one that was cancelled; a
-- sweep by count then need not read them. The first one has the number `en`, and none is taken out of the middle, so a
-- number says where a finished job stands; the packed one is that of the first of its call, so that it is made once. One that
-- goes before its time leaves an empty text. A sorted set costs three times as much. `op` orders pinned ones by end.

local finished_job = {}

local UNTIL_AT, NUMBER_AT = 9, 15
local SOME = 100

function finished_job.state(packed)
  return byte(packed) == 100 and 'done' or 'cancelled'
end

function finished_job.until_ms(packed)
  return (cut('>I6', packed, UNTIL_AT))
end

-- Keep the finished job of a job as long as the queue or the job asks for. `head` may be a whole body's. An id ends once in a
-- call.
function finished_job.put(s, id, head, state, result)
  local cfg = s.cfg
  local pin_ms = cfg.result_ttl_ms
  if byte(head, 24) ~= 0 then
    pin_ms = body.rule(head, 'result_ttl_ms', cfg)
  end
  local keep_ms = pin_ms > 0 and pin_ms or (cfg.keep_done_max > 0 and cfg.keep_done_ms or 0)
  if keep_ms == 0 then
    -- An older finished job of the same id (of a delivery before the blocked job's) is not this one's.
    finished_job.drop(s, id)
    return
  end
  local counters, ended, until_ms = s.head, s.ended, s.now + keep_ms
  if counters.over_at == 0 or until_ms < counters.over_at then
    counters.over_at = until_ms
  end
  if not ended then
    ended = { unpinned = {}, pinned = {}, done = 0 }
    s.ended = ended
  end
  local start = ended.start
  if pin_ms > 0 then
    start = pack('>c1I6I6I6', '1', s.now, until_ms, 0)
    ended.pinned[#ended.pinned + 1], ended.pinned[#ended.pinned + 2] = until_ms, id
  else
    counters.en = counters.en + 1
    if not start then
      start = pack('>c1I6I6I6', '0', s.now, until_ms, counters.en)
      ended.start = start
    end
    ended.unpinned[#ended.unpinned + 1] = state == 'd' and id or '\0' .. id
  end
  if state == 'd' then
    ended.done = ended.done + 1
  end
  local n = #ended
  ended[n + 1] = id
  ended[n + 2] = result and concat({ state, start, head, '\1', result }) or state .. start .. head
end

function finished_job.drop(s, id)
  s.unended = s.unended or {}
  s.unended[#s.unended + 1] = id
end

local function count(s, packed, change)
  local head = s.head
  if byte(packed) == 100 then
    head.done = head.done + change
  else
    head.cancelled = head.cancelled + change
  end
end

local function id_of(entry)
  return byte(entry) == 0 and sub(entry, 2) or entry
end

-- Leave an empty place in the list; `newest` is the number of its first one, `first` that of the first of the call in
-- which the job ended, which ended no more than a batch.
local function leave_list(s, id, newest, first)
  local from = math.max(newest - first - LIMITS.batch + 1, 0)
  local entries = call('LRANGE', s.names.ol, from, newest - first)
  for i = 1, #entries do
    if id_of(entries[i]) == id then
      call('LSET', s.names.ol, from + i - 1, '')
      return
    end
  end
end

-- Take finished jobs that are there out of their order, and out of the counts; returns their ids. `newest` is the number of the
-- first one in the list.
local function leave_order(s, ids, newest)
  local found = waiting.get_all(s.names.o, ids)
  local there, pinned = {}, {}
  for i = 1, #ids do
    local old = found[i]
    if old then
      count(s, old, -1)
      there[#there + 1] = ids[i]
      if byte(old, 2) == 49 then
        pinned[#pinned + 1] = ids[i]
      else
        leave_list(s, ids[i], newest, (cut('>I6', old, NUMBER_AT)))
      end
    end
  end
  waiting.each_chunk('ZREM', s.names.op, pinned, #pinned)
  return there
end

local function put_all(s, ended)
  local head = s.head
  head.done, head.cancelled = head.done + ended.done, head.cancelled + #ended / 2 - ended.done
  waiting.each_chunk('HSET', s.names.o, ended, #ended)
  waiting.each_chunk('LPUSH', s.names.ol, ended.unpinned, #ended.unpinned)
  waiting.each_chunk('ZADD', s.names.op, ended.pinned, #ended.pinned)
end

-- Write the finished jobs of a call.
function finished_job.write(s)
  local head, ids = s.head, s.unended
  if head.done + head.cancelled > 0 and (ids or s.ended) then
    local newest = s.en_before
    if ids then
      local gone = leave_order(s, ids, newest)
      waiting.each_chunk('HDEL', s.names.o, gone, #gone)
    end
    if head.freed > 0 then
      -- Only the job that a blocked job became may have an older finished job: whoever creates an id drops the finished job of its own.
      ids = {}
      for i = 1, s.ended and #s.ended or 0, 2 do
        ids[#ids + 1] = s.ended[i]
      end
      leave_order(s, ids, newest)
    end
    if head.done + head.cancelled == 0 then
      call('UNLINK', s.names.ol)
    end
  end
  if s.ended then
    put_all(s, s.ended)
  end
  s.ended, s.unended = nil, nil
end

-- Forget finished jobs that have left their order already.
local function forget(s, ids, found)
  for i = 1, #ids do
    if found[i] then
      count(s, found[i], -1)
    end
  end
  waiting.each_chunk('HDEL', s.names.o, ids, #ids)
end

-- The oldest entries of the list, from one on, oldest first.
local function oldest_entries(s, first, count)
  local entries = call('LRANGE', s.names.ol, -first - count + 1, -first)
  local n = #entries
  for i = 1, floor(n / 2) do
    entries[i], entries[n + 1 - i] = entries[n + 1 - i], entries[i]
  end
  return entries
end

-- The ids of the oldest unpinned finished jobs, at most `limit`.
function finished_job.oldest_ids(s, limit)
  local ids, first, entries = {}, 1, nil
  while #ids < limit and (not entries or #entries == LIMITS.batch) do
    entries = oldest_entries(s, first, LIMITS.batch)
    first = first + #entries
    for i = 1, #entries do
      if entries[i] ~= '' and #ids < limit then
        ids[#ids + 1] = id_of(entries[i])
      end
    end
  end
  return ids
end

-- Drop the oldest `over` unpinned ones; empty places are passed over, a bounded number of them in a call.
local function sweep_too_many(s, over)
  local ids, n, done, passed = {}, 0, 0, 0
  while n < over and passed < LIMITS.sweep do
    local entries = call('RPOP', s.names.ol, over - n)
    if not entries then
      break
    end
    for i = 1, #entries do
      local entry = entries[i]
      if entry == '' then
        passed = passed + 1
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
  s.head.done, s.head.cancelled = s.head.done - done, s.head.cancelled - (n - done)
  waiting.each_chunk('HDEL', s.names.o, ids, n)
  return n
end

-- The ids among entries, oldest first, whose time is over; what is kept of them; how many entries these are, with the
-- empty places among them; whether there may be more.
local function over_of(s, entries)
  local ids = {}
  for i = 1, #entries do
    if entries[i] ~= '' then
      ids[#ids + 1] = id_of(entries[i])
    end
  end
  local found = waiting.get_all(s.names.o, ids)
  local over, passed = {}, 0
  for i = 1, #entries do
    if entries[i] ~= '' then
      local packed = found[#over + 1]
      if packed and finished_job.until_ms(packed) > s.now then
        return over, found, passed, false
      end
      over[#over + 1] = ids[#over + 1]
    end
    passed = i
  end
  return over, found, passed, passed > 0
end

-- Drop the oldest unpinned ones whose time is over.
local function sweep_too_old(s, limit)
  local swept, passed, size, is_more = 0, 0, 1, true
  while is_more and swept < limit and passed < LIMITS.sweep * 2 do
    local over, found, count
    over, found, count, is_more = over_of(s, oldest_entries(s, 1, math.min(limit - swept, size)))
    if count > 0 then
      call('LTRIM', s.names.ol, 0, -count - 1)
      forget(s, over, found)
      swept, passed = swept + #over, passed + count
    end
    size = SOME
  end
  return swept
end

local function sweep_pinned(s, limit)
  local ids = call('ZRANGE', s.names.op, '-inf', s.now, 'BYSCORE', 'LIMIT', 0, limit)
  if #ids > 0 then
    local found = waiting.get_all(s.names.o, ids)
    waiting.each_chunk('ZREM', s.names.op, ids, #ids)
    forget(s, ids, found)
  end
  return #ids
end

-- Before when no finished job's time is over: that of the oldest one in the list and of the first pinned one. 0 has it looked for
-- again.
local function next_over(s)
  local oldest = call('LRANGE', s.names.ol, '-1', '-1')[1]
  local packed = oldest and call('HGET', s.names.o, id_of(oldest))
  if oldest and not packed then
    return 0
  end
  local pinned = call('ZRANGE', s.names.op, '0', '0', 'WITHSCORES')[2]
  local first = packed and finished_job.until_ms(packed)
  local second = pinned and pinned + 0
  return first and second and math.min(first, second) or first or second or 0
end

-- Drop finished jobs beyond the queue's bounds, after the call's own were written; says how many.
function finished_job.sweep(s)
  local head, limit = s.head, LIMITS.sweep
  local kept = head.done + head.cancelled
  if kept == 0 then
    return 0
  end
  local is_over = s.now >= head.over_at
  if not is_over and kept <= s.cfg.keep_done_max then
    return 0
  end
  local pinned = call('ZCARD', s.names.op)
  local over = kept - pinned - s.cfg.keep_done_max
  local swept = 0
  if over > 0 then
    swept = sweep_too_many(s, math.min(over, limit))
  end
  if is_over then
    if swept < limit and kept - pinned > swept then
      swept = swept + sweep_too_old(s, limit - swept)
    end
    if swept < limit and pinned > 0 then
      swept = swept + sweep_pinned(s, limit - swept)
    end
    head.over_at = next_over(s)
  end
  return swept
end
