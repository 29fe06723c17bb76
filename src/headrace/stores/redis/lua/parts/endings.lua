-- Endings: what is kept of jobs that are done or cancelled, at most one per id.
--
-- Packed: 'd' or 'c' · pinned '0' or '1' · ended_at 6 · until 6 · head of the body · result, with a byte before it so
-- that an empty one differs from none. `ol` orders unpinned ones by twice their number, plus one for those that are
-- done: a sweep by count then need not read them. `op` orders pinned ones by their end.

local ending = {}

local UNTIL_AT = 9

function ending.state(packed)
  return byte(packed) == 100 and 'done' or 'cancelled'
end

function ending.until_ms(packed)
  return (cut('>I6', packed, UNTIL_AT))
end

-- Keep the ending of a job as long as the queue or the job asks for. `head` may be a whole body's.
function ending.put(s, id, head, state, result)
  local cfg = s.cfg
  local pin_ms = cfg.result_ttl_ms
  if byte(head, 24) ~= 0 then
    pin_ms = body.rule(head, 'result_ttl_ms', cfg)
  end
  local keep_ms = pin_ms > 0 and pin_ms or (cfg.keep_done_max > 0 and cfg.keep_done_ms or 0)
  s.E = s.E or {}
  if keep_ms == 0 then
    -- An older ending of the same id (of a delivery before the twin's) is not this one's.
    s.E[id] = false
    return
  end
  local start
  if pin_ms == 0 then
    start = s.ending_start
    if not start then
      start = pack('>c1I6I6', '0', s.now, s.now + keep_ms)
      s.ending_start = start
    end
  else
    start = pack('>c1I6I6', '1', s.now, s.now + keep_ms)
  end
  s.E[id] = state .. start .. head .. (result and '\1' .. result or '')
  s.order = s.order or {}
  s.order[#s.order + 1] = id
end

function ending.drop(s, id)
  s.E = s.E or {}
  s.E[id] = false
end

local function count(s, packed, change)
  local head = s.head
  if byte(packed) == 100 then
    head.done = head.done + change
  else
    head.cancelled = head.cancelled + change
  end
end

-- Take the endings that are replaced or dropped out of the orders; returns those of `ids` that are to be deleted.
local function leave_orders(s, ids)
  local found = waiting.get_all(s.names.o, ids)
  local unpinned, pinned, gone = {}, {}, {}
  for i = 1, #ids do
    local old = found[i]
    if old then
      local id = ids[i]
      count(s, old, -1)
      local list = byte(old, 2) == 49 and pinned or unpinned
      list[#list + 1] = id
      if not s.E[id] then
        gone[#gone + 1] = id
      end
    end
  end
  waiting.each_chunk('ZREM', s.names.ol, unpinned, #unpinned)
  waiting.each_chunk('ZREM', s.names.op, pinned, #pinned)
  waiting.each_chunk('HDEL', s.names.o, gone, #gone)
end

-- Write the endings of a call.
function ending.write(s)
  if not s.E then
    return
  end
  if s.head.done + s.head.cancelled > 0 then
    local ids = {}
    for id in pairs(s.E) do
      ids[#ids + 1] = id
    end
    leave_orders(s, ids)
  end
  local hash, unpinned, pinned = {}, {}, {}
  local h, u, p, number = 0, 0, 0, s.head.en
  for _, id in ipairs(s.order or {}) do
    local packed = s.E[id]
    if packed then
      hash[h + 1], hash[h + 2] = id, packed
      h = h + 2
      count(s, packed, 1)
      if byte(packed, 2) == 49 then
        pinned[p + 1], pinned[p + 2] = cut('>I6', packed, UNTIL_AT), id
        p = p + 2
      else
        number = number + 1
        unpinned[u + 1], unpinned[u + 2] = number * 2 + (byte(packed) == 100 and 1 or 0), id
        u = u + 2
      end
      s.E[id] = nil
    end
  end
  s.head.en = number
  waiting.each_chunk('HSET', s.names.o, hash, h)
  waiting.each_chunk('ZADD', s.names.ol, unpinned, u)
  waiting.each_chunk('ZADD', s.names.op, pinned, p)
  s.E, s.order = nil, nil
end

-- Forget endings that have left their order already.
local function forget(s, ids, found)
  for i = 1, #ids do
    if found[i] then
      count(s, found[i], -1)
    end
  end
  waiting.each_chunk('HDEL', s.names.o, ids, #ids)
end

local function sweep_too_many(s, over)
  local popped = call('ZPOPMIN', s.names.ol, over)
  local ids, n = {}, 0
  local done = 0
  for i = 1, #popped, 2 do
    n = n + 1
    ids[n] = popped[i]
    done = done + tonumber(popped[i + 1]) % 2
  end
  s.head.done, s.head.cancelled = s.head.done - done, s.head.cancelled - (n - done)
  waiting.each_chunk('HDEL', s.names.o, ids, n)
  return n
end

-- Drop unpinned ones from the front whose time is over.
local function sweep_too_old(s, limit)
  local swept = 0
  while swept < limit do
    local ids = call('ZRANGE', s.names.ol, 0, math.min(limit - swept, swept == 0 and 1 or 100) - 1)
    local found = waiting.get_all(s.names.o, ids)
    local over = {}
    for i = 1, #ids do
      if found[i] and cut('>I6', found[i], UNTIL_AT) > s.now then
        break
      end
      over[i] = ids[i]
    end
    if #over > 0 then
      waiting.each_chunk('ZREM', s.names.ol, over, #over)
      forget(s, over, found)
      swept = swept + #over
    end
    if #over == 0 or #over < #ids then
      break
    end
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

-- Drop endings beyond the queue's bounds, after the call's own were written; says how many.
function ending.sweep(s)
  local head, limit = s.head, LIMITS.sweep
  local kept = head.done + head.cancelled
  if kept == 0 then
    return 0
  end
  local pinned = call('ZCARD', s.names.op)
  local over = kept - pinned - s.cfg.keep_done_max
  local swept = 0
  if over > 0 then
    swept = sweep_too_many(s, math.min(over, limit))
  end
  if swept < limit and kept - pinned > swept then
    swept = swept + sweep_too_old(s, limit - swept)
  end
  if swept < limit and pinned > 0 then
    swept = swept + sweep_pinned(s, limit - swept)
  end
  return swept
end
