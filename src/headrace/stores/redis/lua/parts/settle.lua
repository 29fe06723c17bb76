-- Settle: end deliveries, each only while its lease holds. How they ended is said by a character for each, in one text.
-- Where all are 'd', their lines follow whole, in one text, and a settlement is two arguments: id; token and \0.
-- Otherwise '' follows, and a settlement is three: id; token and \0; the members of its line that the worker knows; and a
-- fourth where its character is not 'd'.
--
-- 'd' done without a result · 'D' the result · 'c' cancelled, nothing · 'f' an error · 'l' delay 6 · 'r' delay plus one 6
-- (0: by backoff), jitter in millionths 4 and an error. An error: size of its class 2 · class · message.

local settling = {}

local DONE, DONE_WITH_RESULT = 100, 68

local function error_of(outcome, at)
  local size = cut('>I2', outcome, at)
  return sub(outcome, at + 2, at + 1 + size), sub(outcome, at + 2 + size)
end

-- The ends of leases, when some lease of the shard has run out; nil spares the look at each.
function settling.ends(s, ids)
  local first = call('ZRANGE', s.names.x, '0', '0', 'WITHSCORES')
  if not first[2] or tonumber(first[2]) > s.now then
    return nil
  end
  return call('ZMSCORE', s.names.x, unpack(ids))
end

-- Why a lease does not hold: not active 'n', expired 'e', mismatch 'm'; nil when it does.
function settling.refusal(s, packed, end_ms, token)
  if not packed then
    return 'n'
  elseif end_ms and tonumber(end_ms) <= s.now then
    return 'e'
  elseif find(packed, token, 8, true) ~= 8 then
    return 'm'
  end
end

-- An outcome other than done: its status, and the new time or the dead letter.
local function settle_other(s, id, delivery, how, outcome, said)
  if how == 'c' then
    dying.over(s, id, body.delivery(delivery).head, 'c', nil, said)
    return 'C'
  end
  local packed = waiting.body(s, id)
  if not packed then
    waiting.quarantine(s, 'b', id)
    waiting.let_go(s, id)
    return 'n'
  end
  local asked = byte(delivery) == 49
  if how == 'l' then
    return dying.release(s, id, packed, asked, cut('>I6', outcome), said)
  elseif how == 'f' then
    local class, message = error_of(outcome, 1)
    return 'X', dying.fail(s, id, packed, class, message, said)
  end
  local delay, jitter_ppm = cut('>I6I4', outcome)
  local class, message = error_of(outcome, 11)
  return dying.retry(s, id, packed, asked, delay > 0 and delay - 1, jitter_ppm, class, message, said)
end

-- Where each of the settlements starts that ended as `hows` says, from args[at] on; and where the next thing does.
function settling.starts(hows, at)
  local starts = {}
  for i = 1, #hows do
    starts[i] = at
    at = at + (byte(hows, i) == DONE and 3 or 4)
  end
  return starts, at
end

-- Decide settlements; answers a character for each, then the new times and dead letters of those that have one, in order.
function settling.settle(s, args, hows, starts)
  local ids, count = {}, #hows
  for i = 1, count do
    ids[i] = args[starts[i]]
  end
  local deliveries = waiting.get_all(s.names.a, ids)
  local ends = settling.ends(s, ids)
  local A, answers, statuses, over, is_done = s.A, { '' }, {}, {}, {}
  local lines, is_over, has_blocked_jobs = s.lines, false, s.head.blocked > 0
  s.over, s.has_blocked_jobs = over, has_blocked_jobs
  for i = 1, count do
    local first = starts[i]
    local id, token, said = ids[i], args[first + 1], args[first + 2]
    local delivery = A[id]
    if delivery == nil then
      delivery = not is_done[id] and deliveries[i]
    end
    local status = settling.refusal(s, delivery, ends and ends[i], token)
    if not status then
      local how = byte(hows, i)
      if how == DONE or how == DONE_WITH_RESULT then
        -- Nearly every job: what dying.over does, in lists.
        local head = sub(delivery, find(delivery, '\0', 8 + #token, true) + 1)
        is_done[id] = true
        over[#over + 1] = id
        finished_job.put(s, id, head, 'd', how == DONE_WITH_RESULT and args[first + 3])
        local n = s.pieces
        lines[n + 1], lines[n + 2], lines[n + 3] = '{"event":"done",', said, journal.counts(head)
        lines[n + 4] = '}\n'
        s.pieces, s.count = n + 4, s.count + 1
        if has_blocked_jobs then
          blocked_jobs.free(s, id)
        end
        status = 'D'
      else
        local number
        status, number = settle_other(s, id, delivery, sub(hows, i, i), args[first + 3], said)
        if number then
          answers[#answers + 1] = number
        end
      end
      is_over = is_over or status == 'D' or status == 'C'
    end
    statuses[i] = status
  end
  answers[1] = concat(statuses)
  s.is_sweeping = is_over
  return answers
end

-- Settle where all are done without a result and nothing stands against any of them: their lines go into the journal as
-- they came, and nothing is decided one by one. nil when something does, and nothing was changed then. From args[at] on: id
-- and token in turn.
local function settle_done(s, args, count, at, lines)
  if s.count > 0 or s.over or next(s.A) ~= nil or s.head.blocked > 0 then
    return nil
  end
  local ids = {}
  for i = 1, count do
    ids[i] = args[at + 2 * i - 2]
  end
  if settling.ends(s, ids) then
    return nil
  end
  local deliveries, heads, is_done = waiting.get_all(s.names.a, ids), {}, {}
  for i = 1, count do
    local id, delivery, token = ids[i], deliveries[i], args[at + 2 * i - 1]
    if is_done[id] or settling.refusal(s, delivery, nil, token) then
      return nil
    end
    is_done[id] = true
    heads[i] = sub(delivery, find(delivery, '\0', 8 + #token, true) + 1)
  end
  for i = 1, count do
    finished_job.put(s, ids[i], heads[i], 'd')
  end
  s.over, s.has_blocked_jobs, s.is_sweeping = ids, false, true
  s.lines[1], s.pieces, s.count = lines, 1, count
  return { string.rep('D', count) }
end

-- The same settlements as those are given that are decided one by one.
local function one_by_one(args, at, lines)
  local flat, starts, n = {}, {}, 0
  for said in string.gmatch(lines, '{"event":"done",([^\n]*),"attempts":%d+,"stalls":%d+}\n') do
    starts[#starts + 1] = n + 1
    flat[n + 1], flat[n + 2], flat[n + 3] = args[at], args[at + 1], said
    n, at = n + 3, at + 2
  end
  return flat, starts
end

local function settle_lines(s, args, hows, at, lines)
  local answers = settle_done(s, args, #hows, at, lines)
  if not answers then
    local flat, starts = one_by_one(args, at, lines)
    answers = settling.settle(s, flat, hows, starts)
  end
  return answers
end

-- Settle on `found` what follows for each from args[at] on: its worker, how they ended, and these. `all` are all shards of
-- the call; what was decided on any of them is written. Answers as settle.lua says.
function settling.settle_all(found, all, args, at)
  local answers = { '' }
  shard.join(all)
  for i, s in ipairs(found) do
    local worker, hows, lines = args[at], args[at + 1], args[at + 2]
    local first, starts = at + 3, nil
    if s then
      s.worker = worker
    end
    if lines == '' then
      starts, at = settling.starts(hows, first)
      answers[i + 1] = s and settling.settle(s, args, hows, starts)
    else
      at = first + 2 * #hows
      answers[i + 1] = s and settle_lines(s, args, hows, first, lines)
    end
  end
  answers[1] = dying.handed_on(found)
  finish_all(all)
  return answers
end
