-- Enqueue jobs, merge those whose id is live, and respect idempotency keys.
--
-- uses     json, numbers, job_codec, chunked, journal, shard, live_jobs, finished_jobs, blocked_jobs, step, sweep,
--          single_enqueue
-- keys     the `m` keys of shards
-- args     now_ms or ''; the number of shards for each key; then per key:
--            summary: how many jobs 2 · how many sorts of jobs 2 · 1 when the ids differ 1 · 1 when all payloads are
--            UTF-8 text 1 · size of the journal lines, without their times, when all jobs are new 4
--            the packed journal line for the case that all jobs are new, or ''
--            per sort: head of the body without its first two times; the JSON members that the caller knows
--            per job: id; tail of the body; number of the sort 2, then the options of the job, if any
--          options: time flag 'a' always, 'n' never, 'l' if later, 'e' if earlier · '1' or '0' each for updating the
--          payload, the policy, and resetting the counts · run_at: 'n' now, 'd' after or 't' at 6; with an idempotency
--          key also: time to live plus one 6 (0: the queue's) · fingerprint 32 · key
-- answers  per key: nil where the shard does not exist, else a character for each job: 'c' created, 'u' updated, 'b'
--          blocked, 'd' duplicate, 'k' conflict, 'f' full, 'w' wrong number of shards; 'p' behind them when payloads
--          had to be checked for text; where there are duplicates, a list of these characters and of the end of each
--          duplicate's key
-- flags
local STRIDE = 3
local DEFAULT_OPTIONS = { time = 'n', payload = true, policy = true, reset = false }

local function read_options(text, now)
  if text == '' then
    return DEFAULT_OPTIONS, now
  end
  local time, flags, mode, number = struct_unpack('>c1c3c1I6', text)
  local options = {
    time = time,
    payload = byte(flags, 1) == 49,
    policy = byte(flags, 2) == 49,
    reset = byte(flags, 3) == 49,
  }
  if #text > 11 then
    local ttl = struct_unpack('>I6', text, 12)
    options.ttl, options.fingerprint, options.key = ttl > 0 and ttl - 1, sub(text, 18, 49), sub(text, 50)
  end
  return options, mode == 't' and number or now + number
end

-- Whether an idempotency key was used before: 'd' for the same job, with the end of the key, 'k' for another job.
local function find_key_use(s, field, fingerprint)
  s.idempotency_keys = s.idempotency_keys or {}
  local used = s.idempotency_keys[field] or call('HGET', s.names.idempotency_keys, field)
  local until_ms = used and struct_unpack('>I6', used, 33)
  if until_ms and s.now < until_ms then
    if sub(used, 1, 32) == fingerprint then
      return 'd', until_ms
    end
    return 'k'
  end
end

local function order_key_of(s, id)
  local order_key = s.ready[id]
  if order_key == nil then
    order_key = call('ZSCORE', s.names.ready, id)
  end
  return order_key and tonumber(order_key)
end

local function update(s, id, old, new, options, due)
  local run_at = blocked_jobs.merged_time(options.time, job_codec.run_at(old), due)
  local packed = job_codec.merged(old, new, run_at, options.payload, options.policy, options.reset)
  local order_key
  if run_at <= s.now then
    local old_key = order_key_of(s, id)
    order_key = old_key and live_jobs.moved_order_key(s, packed, old_key) or live_jobs.next_order_key(s, packed)
  end
  live_jobs.change(s, id, packed, order_key)
  journal.add_job_line(s, 'updated', id, packed, nil, options.payload and s.are_payloads_text)
  return 'u'
end

-- Enqueue one job of any kind; returns its status, and of a duplicate the end of its key.
local function enqueue_one(s, id, head, tail, options_text, old)
  local options, due = read_options(options_text, s.now)
  local field = options.key and id .. '\0' .. options.key
  if field then
    local used, until_ms = find_key_use(s, field, options.fingerprint)
    if used then
      return used, until_ms
    end
  end
  local is_active = old and live_jobs.get_delivery(s, id)
  local blocked_job = is_active and blocked_jobs.get(s, id)
  if (not old or (is_active and not blocked_job)) and s.free_places <= 0 then
    return 'f'
  end
  if field then
    local ttl = options.ttl or s.cfg.idempotency_ttl_ms
    s.idempotency_keys[field] = options.fingerprint .. struct_pack('>I6', s.now + ttl)
  end
  local new = struct_pack('>I6I6', s.now, due) .. head .. tail
  if old and not is_active then
    return update(s, id, old, new, options, due)
  end
  if is_active then
    if not blocked_job then
      s.free_places = s.free_places - 1
    end
    blocked_job = blocked_jobs.merge(blocked_job, new, options, due)
    s.blocked[id] = blocked_job
    journal.add_job_line(s, 'blocked', id, blocked_jobs.body_of(blocked_job))
    return 'b'
  end
  s.free_places = s.free_places - 1
  finished_jobs.drop(s, id)
  live_jobs.add(s, id, new)
  journal.add_job_line(s, 'enqueued', id, new, nil, s.are_payloads_text)
  return 'c'
end

-- Write the idempotency keys of the call, and drop expired ones.
local function write_keys(s)
  local hash, scores, n = {}, {}, 0
  for field, used in pairs(s.idempotency_keys or {}) do
    hash[n + 1], hash[n + 2] = field, used
    scores[n + 1], scores[n + 2] = struct_unpack('>I6', used, 33), field
    n = n + 2
  end
  chunked.run('HSET', s.names.idempotency_keys, hash, n)
  chunked.run('ZADD', s.names.idempotency_ends, scores, n)
  if s.idempotency_keys then
    sweep.drop_idempotency_keys(s)
  end
end

-- A new job has no older finished job of its id.
local function drop_finished_job(s, id, found)
  if found then
    finished_jobs.drop(s, id)
  end
end

-- What new jobs of one sort have in common: start of the body, tier of the order key, and pieces of the journal line.
local function sort_of(s, head, members)
  local priority = byte(head, 11)
  priority = priority == 255 and s.cfg.priority or priority
  return {
    head = head,
    start = struct_pack('>I6I6', s.now, s.now) .. head,
    tier = (PRIORITY_MAX - priority) * TIER,
    members = '",' .. members .. ',"payload_bytes":',
    line_end = ',"priority":' .. priority .. ',"run_at_ms":' .. numbers.text(s.now) .. '}\n',
  }
end

-- Nearly every call: all jobs are new, due now and without options. The journal takes the packed line as it came.
local function create_all(s, args, at, count, ids, finished, sorts, packed, bytes)
  local counters, text_of = s.counters, numbers.text
  local bodies, order_keys, number = {}, {}, counters.number
  for i = 1, count do
    local id, job_sort, n = ids[i], sorts[args[at + 2]], i + i
    number = number + 1
    bodies[n - 1], bodies[n] = id, job_sort.start .. args[at + 1]
    order_keys[n - 1], order_keys[n] = text_of(job_sort.tier + number), id
    if finished then
      drop_finished_job(s, id, finished[i])
    end
    at = at + STRIDE
  end
  counters.number, s.new_bodies, s.new_order_keys, s.has_new_work = number, bodies, order_keys, true
  local now = text_of(s.now)
  journal.add_packed(s, 'e', bytes + count * #now, now .. ' ' .. s.cfg.priority, packed, count)
  return string.rep('c', count)
end

-- Whether create_all may enqueue the jobs.
local function are_all_new(s, found, count, packed)
  if packed == '' or s.cfg.journal_payloads or s.free_places < count then
    return false
  end
  for i = 1, count do
    if found[i] then
      return false
    end
  end
  return true
end

local function create_or_update(s, args, at, count, ids, found, finished, sorts, are_distinct, are_texts)
  local decided, statuses, counters, text_of = s.bodies, {}, s.counters, numbers.text
  local has_payloads = s.cfg.journal_payloads
  local bodies, order_keys, n, lines, key_ends, are_plain = {}, {}, 0, s.lines, nil, json.are_plain(ids)
  s.new_bodies, s.new_order_keys = bodies, order_keys
  for i = 1, count do
    local first = at + (i - 1) * STRIDE
    local id, tail, which = ids[i], args[first + 1], args[first + 2]
    local job_sort = sorts[which] or sorts[sub(which, 1, 2)]
    local old = decided[id]
    if old == nil then
      old = found[i]
    end
    if #which == 2 and not old and are_distinct and s.free_places > 0 then
      -- New, due now, without options.
      local number, piece, line_end = counters.number + 1, s.piece_count + 1, job_sort.line_end
      counters.number, s.free_places = number, s.free_places - 1
      bodies[n + 1], bodies[n + 2] = id, job_sort.start .. tail
      order_keys[n + 1], order_keys[n + 2] = text_of(job_sort.tier + number), id
      n = n + 2
      if finished then
        drop_finished_job(s, id, finished[i])
      end
      if has_payloads then
        line_end = journal.payload_member(bodies[n], are_texts) .. line_end
      end
      -- In pieces: the server hashes every text that is built here from end to end.
      lines[piece], lines[piece + 1] = '{"event":"enqueued","id":"', are_plain and id or sub(json.quote(id), 2, -2)
      lines[piece + 2], lines[piece + 3] = job_sort.members, text_of((struct_unpack('>I4', tail)))
      lines[piece + 4] = line_end
      s.piece_count, s.line_count = piece + 4, s.line_count + 1
      statuses[i] = 'c'
    else
      local status, until_ms = enqueue_one(s, id, job_sort.head, tail, sub(which, 3), old)
      statuses[i] = status
      if until_ms then
        key_ends = key_ends or { '' }
        key_ends[#key_ends + 1] = text_of(until_ms)
      end
    end
  end
  s.has_new_work = s.has_new_work or n > 0
  if n == 0 then
    s.new_bodies, s.new_order_keys = nil, nil
  end
  if has_payloads and not are_texts then
    statuses[count + 1] = 'p'
  end
  if key_ends then
    key_ends[1] = concat(statuses)
  end
  return key_ends or concat(statuses)
end

-- Enqueue the jobs of one shard; args[at] is their summary.
local function enqueue(s, args, at, count, sorts_count, are_distinct, are_texts, bytes)
  local packed, sorts = args[at + 1], {}
  at = at + 2
  for i = 1, sorts_count do
    sorts[struct_pack('>I2', i)] = sort_of(s, args[at], args[at + 1])
    at = at + 2
  end
  local ids = {}
  for i = 1, count do
    ids[i] = args[at + (i - 1) * STRIDE]
  end
  local found = chunked.get_values(s.names.bodies, ids)
  local finished = s.counters.done + s.counters.cancelled > 0 and chunked.get_values(s.names.finished, ids)
  s.free_places, s.are_payloads_text = s.cfg.waiting_max - live_jobs.count_waiting(s), are_texts
  local answer
  if are_all_new(s, found, count, packed) then
    answer = create_all(s, args, at, count, ids, finished, sorts, packed, bytes)
  else
    answer = create_or_update(s, args, at, count, ids, found, finished, sorts, are_distinct, are_texts)
  end
  step.commit(s)
  write_keys(s)
  return answer
end

local function run(keys, args)
  -- One job with a packed line, so it has no options.
  if #keys == 1 and #args == 9 and args[4] ~= ''
    and single_enqueue.enqueue(keys[1], args[1], args[2], args[3], args[7], args[5], args[8], args[4]) then
    return { 'c' }
  end
  local now = shard.now(args[1])
  local found, answers = {}, {}
  for i, key in ipairs(keys) do
    local s, known = shard.load(key, args[i + 1], now)
    found[i] = s or known
  end
  local at = 2 + #keys
  for i = 1, #keys do
    local s = found[i]
    local count, sorts_count, are_distinct, are_texts, bytes = struct_unpack('>I2I2BBI4', args[at])
    if type(s) == 'table' then
      shard.notice_restart(s)
      answers[i] = enqueue(s, args, at, count, sorts_count, are_distinct == 1, are_texts == 1, bytes)
    else
      answers[i] = s and string.rep('w', count) or false
    end
    at = at + 2 + 2 * sorts_count + count * STRIDE
  end
  return answers
end
