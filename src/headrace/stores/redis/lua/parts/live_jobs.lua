-- Waiting and active jobs: what a call decides is collected per id, and written in a few commands at its end.

local waiting = {}

local TIER = 2 ^ 48
local CHUNK = LIMITS.batch * 2
local NONE = {}

-- A new place at the end of the line of a priority.
function waiting.draw(s, packed)
  local number = s.head.number + 1
  s.head.number = number
  return (9 - body.priority(packed, s.cfg)) * TIER + number
end

-- The place of a job that keeps its number, in the line of the priority it has now.
function waiting.same_number(s, packed, place)
  return (9 - body.priority(packed, s.cfg)) * TIER + place % TIER
end

-- Let a record that is in no index wait: ready when it is due, later otherwise.
function waiting.wait(s, id, packed)
  local run_at = body.run_at(packed)
  s.B[id] = packed
  if run_at <= s.now then
    s.R[id] = waiting.draw(s, packed)
  else
    s.L[id] = run_at
  end
  s.woke = true
end

-- Change a record that waits: `place` among the ready ones, or nil for later.
function waiting.change(s, id, packed, place)
  s.B[id] = packed
  s.R[id], s.L[id] = place or false, not place and body.run_at(packed)
  s.woke = true
end

-- Take a job that waits off its shard.
function waiting.drop(s, id)
  s.B[id], s.R[id], s.L[id] = false, false, false
end

-- Take the lease of a job away, also one that this call has given.
function waiting.let_go(s, id)
  s.X[id], s.A[id] = false, false
  for i, handed in ipairs(s.handed or NONE) do
    if handed == id then
      table.remove(s.handed, i)
      for _ = 1, 2 do
        table.remove(s.leases, i * 2 - 1)
        table.remove(s.deliveries, i * 2 - 1)
      end
      s.R[id] = s.R[id] or false
      return
    end
  end
end

-- A record that should have been there and was not: noted, and the call goes on.
function waiting.quarantine(s, what, id)
  s.missing = s.missing or {}
  s.missing[#s.missing + 1] = what .. ' ' .. id
end

-- The values of hash fields for many ids, in chunks.
function waiting.get_all(key, ids)
  local count = #ids
  if count == 0 then
    return {}
  end
  if count <= CHUNK then
    return call('HMGET', key, unpack(ids))
  end
  local found = {}
  for first = 1, count, CHUNK do
    local last = math.min(first + CHUNK - 1, count)
    local part = call('HMGET', key, unpack(ids, first, last))
    for i = 1, last - first + 1 do
      found[first + i - 1] = part[i]
    end
  end
  return found
end

-- The scores of many members of a sorted set, in chunks.
function waiting.scores(key, ids)
  local found = {}
  for first = 1, #ids, CHUNK do
    local part = call('ZMSCORE', key, unpack(ids, first, math.min(first + CHUNK - 1, #ids)))
    for i = 1, #part do
      found[first + i - 1] = part[i]
    end
  end
  return found
end

-- The body of a job as it stands in this call; false when there is none.
function waiting.body(s, id)
  local packed = s.B[id]
  if packed == nil then
    packed = call('HGET', s.names.b, id)
  end
  return packed
end

-- The delivery of a job as it stands in this call.
function waiting.delivery(s, id)
  local packed = s.A[id]
  if packed == nil then
    packed = call('HGET', s.names.a, id)
  end
  return packed
end

-- How many wait or are blocked.
function waiting.held(s)
  s.ready = call('ZCARD', s.names.r)
  return s.ready + call('ZCARD', s.names.l) + s.head.blocked
end

-- One command over a flat list, in chunks; returns the sum of its answers.
function waiting.each_chunk(command, key, flat, n)
  if n == 0 then
    return 0
  end
  if n <= CHUNK then
    return call(command, key, unpack(flat, 1, n))
  end
  local sum = 0
  for first = 1, n, CHUNK do
    sum = sum + call(command, key, unpack(flat, first, math.min(first + CHUNK - 1, n)))
  end
  return sum
end

local function drop_those(command, key, changes)
  if next(changes) == nil then
    return 0
  end
  local flat, n = {}, 0
  for id, value in pairs(changes) do
    if not value then
      n = n + 1
      flat[n] = id
    end
  end
  return waiting.each_chunk(command, key, flat, n)
end

local function set_hash(key, changes)
  if next(changes) == nil then
    return 0
  end
  local flat, n = {}, 0
  for id, value in pairs(changes) do
    if value then
      flat[n + 1], flat[n + 2] = id, value
      n = n + 2
    end
  end
  return waiting.each_chunk('HSET', key, flat, n)
end

local function set_scores(key, changes)
  if next(changes) == nil then
    return
  end
  local flat, n = {}, 0
  for id, score in pairs(changes) do
    if score then
      flat[n + 1], flat[n + 2] = score, id
      n = n + 2
    end
  end
  waiting.each_chunk('ZADD', key, flat, n)
end

local function earliest(changes)
  local least
  for _, score in pairs(changes) do
    if score and (not least or score < least) then
      least = score
    end
  end
  return least
end

-- Whether waiters have to be told: something is ready where nothing was, or is due before all that was.
local function is_news(s)
  if not s.woke then
    return false
  end
  if (s.new_places or earliest(s.R)) and (s.ready or call('ZCARD', s.names.r)) == 0 then
    return true
  end
  local due = earliest(s.L)
  if not due then
    return false
  end
  local first = call('ZRANGE', s.names.l, 0, 0, 'WITHSCORES')
  return not first[2] or due < tonumber(first[2])
end

-- What enqueue and settle decide for nearly every job of a batch, in lists that need no sorting out. They come before
-- what was decided otherwise, which may be about the same ids.
local function write_lists(s)
  local named = s.names
  if s.new_bodies then
    waiting.each_chunk('HSET', named.b, s.new_bodies, #s.new_bodies)
    waiting.each_chunk('ZADD', named.r, s.new_places, #s.new_places)
    s.new_bodies, s.new_places = nil, nil
  end
  if s.over then
    waiting.each_chunk('ZREM', named.x, s.over, #s.over)
    waiting.each_chunk('HDEL', named.a, s.over, #s.over)
    waiting.each_chunk('HDEL', named.b, s.over, #s.over)
    s.over = nil
  end
end

-- What a claim hands out; after everything else, since a job may be repaired and handed out in one call.
local function write_handed(s)
  local named = s.names
  if s.handed then
    waiting.each_chunk('ZREM', named.r, s.handed, #s.handed)
    waiting.each_chunk('ZADD', named.x, s.leases, #s.leases)
    waiting.each_chunk('HSET', named.a, s.deliveries, #s.deliveries)
    s.handed, s.leases, s.deliveries = nil, nil, nil
  end
end

-- Drops before sets, since a job may leave an index and come back in one call.
local function write_changes(s)
  local named, head = s.names, s.head
  drop_those('ZREM', named.r, s.R)
  drop_those('ZREM', named.l, s.L)
  drop_those('ZREM', named.x, s.X)
  drop_those('HDEL', named.a, s.A)
  drop_those('HDEL', named.b, s.B)
  head.blocked = head.blocked - drop_those('HDEL', named.t, s.T)
  set_hash(named.b, s.B)
  set_hash(named.a, s.A)
  head.blocked = head.blocked + set_hash(named.t, s.T)
  set_scores(named.r, s.R)
  set_scores(named.l, s.L)
  set_scores(named.x, s.X)
  s.B, s.R, s.L, s.X, s.A, s.T = {}, {}, {}, {}, {}, {}
end

-- Write what was decided.
function waiting.write(s)
  local named = s.names
  local is_waking = is_news(s)
  write_lists(s)
  if next(s.B) or next(s.R) or next(s.L) or next(s.X) or next(s.A) or next(s.T) then
    write_changes(s)
  end
  write_handed(s)
  if s.missing then
    waiting.each_chunk('LPUSH', named.q, s.missing, #s.missing)
    call('LTRIM', named.q, 0, LIMITS.quarantine - 1)
  end
  s.missing, s.woke, s.ready = nil, false, nil
  if is_waking then
    telling.publish(named.prefix, '')
  end
end
