-- Take in jobs, merge those whose id is known, and honour idempotency keys.
--
-- keys     the `m` keys of shards
-- args     now_ms or ''; the number of shards for each key; then per key: how many jobs 2, how many sorts of jobs 2, 1 when
--          the ids differ 1, 1 when all payloads are texts in UTF-8 1, bytes of the lines that the jobs have when all are
--          new, without their times 4; '' or the jobs as the journal keeps them then; per sort: head of the body without
--          its first two times; the members of its lines that the caller knows; and per job:
--          id; tail of the body; number of the sort 2, and how the job is steered, if it is
--          steered: time flag 'a' always, 'n' never, 'l' if later, 'e' if earlier; '1' or '0' each for updating the
--          payload, the policy, and resetting the counts; 'n' now, 'd' after or 't' at a time 6; and with an idempotency
--          key: time to live plus one 6 (0: the queue's), fingerprint 32, key
-- answers  per key: nil for a shard that is not there, else a character for each job: 'c' created, 'u' updated,
--          'b' blocked, 'd' duplicate, 'k' conflict, 'f' full, 'w' wrong number of shards, and behind them 'p' when the
--          caller should have looked whether payloads are texts; with duplicates a list of these characters and, for each
--          duplicate, until when its key is remembered
-- flags
local STRIDE = 3
local TIER = 2 ^ 48
local DEFAULT = { time = 'n', payload = true, policy = true, reset = false }

local function steer_of(text, now)
  if text == '' then
    return DEFAULT, now
  end
  local time, flags, mode, number = cut('>c1c3c1I6', text)
  local steer = {
    time = time,
    payload = byte(flags, 1) == 49,
    policy = byte(flags, 2) == 49,
    reset = byte(flags, 3) == 49,
  }
  if #text > 11 then
    local ttl = cut('>I6', text, 12)
    steer.ttl, steer.fingerprint, steer.key = ttl > 0 and ttl - 1, sub(text, 18, 49), sub(text, 50)
  end
  return steer, mode == 't' and number or now + number
end

-- Whether the key of a job was used before: 'd' for the same work, with the time until when it is remembered, 'k' for
-- other work.
local function used_before(s, field, fingerprint)
  s.K = s.K or {}
  local used = s.K[field] or call('HGET', s.names.k, field)
  local until_ms = used and cut('>I6', used, 33)
  if until_ms and s.now < until_ms then
    if sub(used, 1, 32) == fingerprint then
      return 'd', until_ms
    end
    return 'k'
  end
end

local function place_of(s, id)
  local place = s.R[id]
  if place == nil then
    place = call('ZSCORE', s.names.r, id)
  end
  return place and tonumber(place)
end

local function update(s, id, old, new, steer, due)
  local run_at = blocked_jobs.merged_time(steer.time, body.run_at(old), due)
  local packed = body.updated(old, new, run_at, steer.payload, steer.policy, steer.reset)
  local place
  if run_at <= s.now then
    local had = place_of(s, id)
    place = had and waiting.same_number(s, packed, had) or waiting.draw(s, packed)
  end
  waiting.change(s, id, packed, place)
  journal.waits(s, 'updated', id, packed, nil, steer.payload and s.are_texts)
  return 'u'
end

-- One job, whatever it may be; of a duplicate also until when its key is remembered.
local function enqueue_one(s, id, head, tail, text, old)
  local steer, due = steer_of(text, s.now)
  local field = steer.key and id .. '\0' .. steer.key
  if field then
    local used, until_ms = used_before(s, field, steer.fingerprint)
    if used then
      return used, until_ms
    end
  end
  local is_active = old and waiting.delivery(s, id)
  local blocked_job = is_active and blocked_jobs.get(s, id)
  if (not old or (is_active and not blocked_job)) and s.room <= 0 then
    return 'f'
  end
  if field then
    s.K[field] = steer.fingerprint .. pack('>I6', s.now + (steer.ttl or s.cfg.idempotency_ttl_ms))
  end
  local new = pack('>I6I6', s.now, due) .. head .. tail
  if old and not is_active then
    return update(s, id, old, new, steer, due)
  end
  if is_active then
    if not blocked_job then
      s.room = s.room - 1
    end
    blocked_job = blocked_jobs.block(blocked_job, new, steer, due)
    s.T[id] = blocked_job
    journal.waits(s, 'blocked', id, blocked_jobs.body(blocked_job))
    return 'b'
  end
  s.room = s.room - 1
  finished_job.drop(s, id)
  waiting.wait(s, id, new)
  journal.waits(s, 'enqueued', id, new, nil, s.are_texts)
  return 'c'
end

local function write_keys(s)
  local hash, scores, n = {}, {}, 0
  for field, used in pairs(s.K or {}) do
    hash[n + 1], hash[n + 2] = field, used
    scores[n + 1], scores[n + 2] = cut('>I6', used, 33), field
    n = n + 2
  end
  waiting.each_chunk('HSET', s.names.k, hash, n)
  waiting.each_chunk('ZADD', s.names.kx, scores, n)
  if s.K then
    sweeping.keys(s)
  end
end

-- A new job has no older finished job of its id.
local function drop_finished_job(s, id, found)
  if found then
    finished_job.drop(s, id)
  end
end

-- What jobs of a sort begin with in the store when they are due now, where they stand, and what their lines say.
local function sort_of(s, head, said)
  local own = byte(head, 11)
  own = own == 255 and s.cfg.priority or own
  return {
    head = head,
    start = pack('>I6I6', s.now, s.now) .. head,
    tier = (9 - own) * TIER,
    said = '",' .. said .. ',"payload_bytes":',
    behind = ',"priority":' .. own .. ',"run_at_ms":' .. body.text(s.now) .. '}\n',
  }
end

-- Nearly every call: all jobs are new, due now and steered by nothing. The journal takes them in the caller's words.
local function create_all(s, args, at, count, ids, finished_jobs, sorts, packed, bytes)
  local head, text_of = s.head, body.text
  local bodies, places, number = {}, {}, head.number
  for i = 1, count do
    local id, sort, n = ids[i], sorts[args[at + 2]], i + i
    number = number + 1
    bodies[n - 1], bodies[n] = id, sort.start .. args[at + 1]
    places[n - 1], places[n] = text_of(sort.tier + number), id
    if finished_jobs then
      drop_finished_job(s, id, finished_jobs[i])
    end
    at = at + STRIDE
  end
  head.number, s.new_bodies, s.new_places, s.woke = number, bodies, places, true
  local now = text_of(s.now)
  journal.keep(s, 'e', bytes + count * #now, now .. ' ' .. s.cfg.priority, packed, count)
  return string.rep('c', count)
end

-- Whether jobs that are not there yet may come in by create_all.
local function are_all_new(s, found, count, packed)
  if packed == '' or s.cfg.journal_payloads or s.room < count then
    return false
  end
  for i = 1, count do
    if found[i] then
      return false
    end
  end
  return true
end

local function create_or_update(s, args, at, count, ids, found, finished_jobs, sorts, are_distinct, are_texts)
  local B, statuses, head, text_of, is_carried = s.B, {}, s.head, body.text, s.cfg.journal_payloads
  local bodies, places, n, lines, told, are_plain = {}, {}, 0, s.lines, nil, json.are_plain(ids)
  s.new_bodies, s.new_places = bodies, places
  for i = 1, count do
    local first = at + (i - 1) * STRIDE
    local id, tail, which = ids[i], args[first + 1], args[first + 2]
    local sort = sorts[which] or sorts[sub(which, 1, 2)]
    local old = B[id]
    if old == nil then
      old = found[i]
    end
    if #which == 2 and not old and are_distinct and s.room > 0 then
      -- New, due now, steered by nothing.
      local number, piece, behind = head.number + 1, s.pieces + 1, sort.behind
      head.number, s.room = number, s.room - 1
      bodies[n + 1], bodies[n + 2] = id, sort.start .. tail
      places[n + 1], places[n + 2] = text_of(sort.tier + number), id
      n = n + 2
      if finished_jobs then
        drop_finished_job(s, id, finished_jobs[i])
      end
      if is_carried then
        behind = journal.carried(bodies[n], are_texts) .. behind
      end
      -- In pieces: the server hashes every text that is made here from end to end.
      lines[piece], lines[piece + 1] = '{"event":"enqueued","id":"', are_plain and id or sub(json.quote(id), 2, -2)
      lines[piece + 2], lines[piece + 3], lines[piece + 4] = sort.said, text_of((cut('>I4', tail))), behind
      s.pieces, s.count = piece + 4, s.count + 1
      statuses[i] = 'c'
    else
      local status, until_ms = enqueue_one(s, id, sort.head, tail, sub(which, 3), old)
      statuses[i] = status
      if until_ms then
        told = told or { '' }
        told[#told + 1] = text_of(until_ms)
      end
    end
  end
  s.woke = s.woke or n > 0
  if n == 0 then
    s.new_bodies, s.new_places = nil, nil
  end
  if is_carried and not are_texts then
    statuses[count + 1] = 'p'
  end
  if told then
    told[1] = concat(statuses)
  end
  return told or concat(statuses)
end

-- The jobs from args[at] on, behind what is said of all of them.
local function enqueue(s, args, at, count, sorts_count, are_distinct, are_texts, bytes)
  local packed, sorts = args[at + 1], {}
  at = at + 2
  for i = 1, sorts_count do
    sorts[pack('>I2', i)] = sort_of(s, args[at], args[at + 1])
    at = at + 2
  end
  local ids = {}
  for i = 1, count do
    ids[i] = args[at + (i - 1) * STRIDE]
  end
  local found = waiting.get_all(s.names.b, ids)
  local finished_jobs = s.head.done + s.head.cancelled > 0 and waiting.get_all(s.names.o, ids)
  s.room, s.are_texts = s.cfg.waiting_max - waiting.held(s), are_texts
  local answer
  if are_all_new(s, found, count, packed) then
    answer = create_all(s, args, at, count, ids, finished_jobs, sorts, packed, bytes)
  else
    answer = create_or_update(s, args, at, count, ids, found, finished_jobs, sorts, are_distinct, are_texts)
  end
  finish(s)
  write_keys(s)
  return answer
end

local function run(keys, args)
  -- One job that the journal may keep packed, so it is steered by nothing.
  if #keys == 1 and #args == 9 and args[4] ~= ''
    and lone.enqueue(keys[1], args[1], args[2], args[3], args[7], args[5], args[8], args[4]) then
    return { 'c' }
  end
  local now = shard.now(args[1])
  local found, answers = {}, {}
  for i, key in ipairs(keys) do
    local s, known = shard.find(key, args[i + 1], now)
    found[i] = s or known
  end
  local at = 2 + #keys
  for i = 1, #keys do
    local s = found[i]
    local count, sorts_count, are_distinct, are_texts, bytes = cut('>I2I2BBI4', args[at])
    if type(s) == 'table' then
      shard.meet(s)
      answers[i] = enqueue(s, args, at, count, sorts_count, are_distinct == 1, are_texts == 1, bytes)
    else
      answers[i] = s and string.rep('w', count) or false
    end
    at = at + 2 + 2 * sorts_count + count * STRIDE
  end
  return answers
end
