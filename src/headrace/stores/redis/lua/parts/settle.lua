-- Settle: end deliveries, each only while its lease holds.
--
-- uses  job_codec, chunked, journal, shard, live_jobs, finished_jobs, blocked_jobs, death, outcome, step
--
-- The settlements of a shard begin with one text of outcome codes, a character for each. Where all codes are 'd', the
-- next argument is all journal lines as one text, and a settlement has two arguments: id; token and \0. Otherwise the
-- next argument is '', and a settlement has three: id; token and \0; the JSON members that the worker knows. A fourth
-- one follows unless the code is 'd':
--
-- 'D' done        the result ('d' is done without one)
-- 'c' cancelled   nothing
-- 'f' failed      an error: size of its class 2 · class · message
-- 'l' released    delay 6
-- 'r' retried     delay plus one 6 (0: by backoff) · jitter in millionths 4 · an error

local settle = {}

local DONE, DONE_WITH_RESULT = 100, 68

local function error_of(details, at)
  local size = struct_unpack('>I2', details, at)
  return sub(details, at + 2, at + 1 + size), sub(details, at + 2 + size)
end

-- The ends of leases; nil while no lease of the shard has expired, which spares a look at each.
function settle.lease_ends(s, ids)
  local first = call('ZRANGE', s.names.leases, '0', '0', 'WITHSCORES')
  if not first[2] or tonumber(first[2]) > s.now then
    return nil
  end
  return call('ZMSCORE', s.names.leases, unpack(ids))
end

-- Why a lease does not hold: 'n' not active, 'e' expired, 'm' another token; nil when it holds.
function settle.refusal(s, packed, end_ms, token)
  if not packed then
    return 'n'
  elseif end_ms and tonumber(end_ms) <= s.now then
    return 'e'
  elseif find(packed, token, 8, true) ~= 8 then
    return 'm'
  end
end

-- Apply an outcome other than done: returns its status, and the new run_at or the number of the dead letter.
local function settle_other(s, id, delivery, code, details, members)
  if code == 'c' then
    outcome.finish(s, id, job_codec.delivery(delivery).head, 'c', nil, members)
    return 'C'
  end
  local packed = live_jobs.get_body(s, id)
  if not packed then
    live_jobs.quarantine(s, 'b', id)
    live_jobs.drop_lease(s, id)
    return 'n'
  end
  local is_cancel_requested = byte(delivery) == 49
  if code == 'l' then
    return outcome.release(s, id, packed, is_cancel_requested, struct_unpack('>I6', details), members)
  elseif code == 'f' then
    local class, message = error_of(details, 1)
    return 'X', outcome.fail(s, id, packed, class, message, members)
  end
  local delay, jitter_ppm = struct_unpack('>I6I4', details)
  local class, message = error_of(details, 11)
  delay = delay > 0 and delay - 1
  return outcome.retry(s, id, packed, is_cancel_requested, delay, jitter_ppm, class, message, members)
end

-- The positions in `args` where settlements with these codes start, from args[at] on; and the position behind them.
local function starts_of(codes, at)
  local starts = {}
  for i = 1, #codes do
    starts[i] = at
    at = at + (byte(codes, i) == DONE and 3 or 4)
  end
  return starts, at
end

-- Decide settlements one by one; returns a status character for each, then the new run_at of each 'R' and 'L' and the
-- dead letter of each 'X', in order.
local function settle_each(s, args, codes, starts)
  local ids, count = {}, #codes
  for i = 1, count do
    ids[i] = args[starts[i]]
  end
  local deliveries = chunked.get_values(s.names.deliveries, ids)
  local ends = settle.lease_ends(s, ids)
  local decided, answers, statuses, done_ids, is_done = s.deliveries, { '' }, {}, {}, {}
  local lines, has_ended, has_blocked_jobs = s.lines, false, s.counters.blocked > 0
  s.done_ids, s.has_blocked_jobs = done_ids, has_blocked_jobs
  for i = 1, count do
    local first = starts[i]
    local id, token, members = ids[i], args[first + 1], args[first + 2]
    local delivery = decided[id]
    if delivery == nil then
      delivery = not is_done[id] and deliveries[i]
    end
    local status = settle.refusal(s, delivery, ends and ends[i], token)
    if not status then
      local code = byte(codes, i)
      if code == DONE or code == DONE_WITH_RESULT then
        -- Nearly every job: outcome.finish, in lists.
        local head = sub(delivery, find(delivery, '\0', 8 + #token, true) + 1)
        is_done[id] = true
        done_ids[#done_ids + 1] = id
        finished_jobs.put(s, id, head, 'd', code == DONE_WITH_RESULT and args[first + 3])
        local n = s.piece_count
        lines[n + 1], lines[n + 2], lines[n + 3] = '{"event":"done",', members, journal.count_members(head)
        lines[n + 4] = '}\n'
        s.piece_count, s.line_count = n + 4, s.line_count + 1
        if has_blocked_jobs then
          blocked_jobs.release(s, id)
        end
        status = 'D'
      else
        local number
        status, number = settle_other(s, id, delivery, sub(codes, i, i), args[first + 3], members)
        if number then
          answers[#answers + 1] = number
        end
      end
      has_ended = has_ended or status == 'D' or status == 'C'
    end
    statuses[i] = status
  end
  answers[1] = concat(statuses)
  s.must_sweep = has_ended
  return answers
end

-- Settle deliveries that are all done without a result: their journal lines are written as they came, and nothing is
-- decided one by one. nil, with nothing changed, when a lease does not hold, a job is blocked, or the call has decided
-- before. From args[at] on: id and token in turn.
local function settle_done(s, args, count, at, lines)
  if s.line_count > 0 or s.done_ids or next(s.deliveries) ~= nil or s.counters.blocked > 0 then
    return nil
  end
  local ids = {}
  for i = 1, count do
    ids[i] = args[at + 2 * i - 2]
  end
  if settle.lease_ends(s, ids) then
    return nil
  end
  local deliveries, heads, is_done = chunked.get_values(s.names.deliveries, ids), {}, {}
  for i = 1, count do
    local id, delivery, token = ids[i], deliveries[i], args[at + 2 * i - 1]
    if is_done[id] or settle.refusal(s, delivery, nil, token) then
      return nil
    end
    is_done[id] = true
    heads[i] = sub(delivery, find(delivery, '\0', 8 + #token, true) + 1)
  end
  for i = 1, count do
    finished_jobs.put(s, ids[i], heads[i], 'd')
  end
  s.done_ids, s.has_blocked_jobs, s.must_sweep = ids, false, true
  s.lines[1], s.piece_count, s.line_count = lines, 1, count
  return { string.rep('D', count) }
end

-- The arguments of the same settlements in the form that settle_each takes.
local function split_lines(args, at, lines)
  local flat, starts, n = {}, {}, 0
  for members in string.gmatch(lines, '{"event":"done",([^\n]*),"attempts":%d+,"stalls":%d+}\n') do
    starts[#starts + 1] = n + 1
    flat[n + 1], flat[n + 2], flat[n + 3] = args[at], args[at + 1], members
    n, at = n + 3, at + 2
  end
  return flat, starts
end

local function settle_lines(s, args, codes, at, lines)
  local answers = settle_done(s, args, #codes, at, lines)
  if not answers then
    local flat, starts = split_lines(args, at, lines)
    answers = settle_each(s, flat, codes, starts)
  end
  return answers
end

-- Settle on the steps `found`. For each of them, from args[at] on: its worker, its codes, '' or the lines, and its
-- settlements. `all` are all steps of the call, which are committed. Answers as the operation settle.lua does.
function settle.settle_all(found, all, args, at)
  local answers = { '' }
  shard.link(all)
  for i, s in ipairs(found) do
    local worker, codes, lines = args[at], args[at + 1], args[at + 2]
    local first, starts = at + 3, nil
    if s then
      s.worker = worker
    end
    if lines == '' then
      starts, at = starts_of(codes, first)
      answers[i + 1] = s and settle_each(s, args, codes, starts)
    else
      at = first + 2 * #codes
      answers[i + 1] = s and settle_lines(s, args, codes, first, lines)
    end
  end
  answers[1] = death.fail_queue_flags(found)
  step.commit_all(all)
  return answers
end

return settle
