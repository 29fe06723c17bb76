-- Claim: repair, promote, hand out.

local handing = {}

local CHUNK = 100

local function part_of(ids, first, size)
  local part = {}
  for i = first, math.min(first + size - 1, #ids) do
    part[#part + 1] = ids[i]
  end
  return part
end

-- The lowest score of a sorted set; false when it is empty.
local function first_of(key)
  local score = call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]
  return score and score + 0 or false
end

-- Take back jobs whose lease has run out, at most `limit`, by end, then id; says how many. Where none has, the step knows
-- when the first one will.
function handing.repair(s, limit)
  local first_end = first_of(s.names.x)
  if not first_end or first_end > s.now then
    s.lease_end = first_end
    return 0
  end
  local overdue = call('ZRANGE', s.names.x, '-inf', body.text(s.now), 'BYSCORE', 'LIMIT', '0', limit)
  for first = 1, #overdue, CHUNK do
    local ids = part_of(overdue, first, CHUNK)
    local deliveries, bodies = waiting.get_all(s.names.a, ids), waiting.get_all(s.names.b, ids)
    for i, id in ipairs(ids) do
      if bodies[i] and deliveries[i] then
        dying.stall(s, id, bodies[i], body.delivery(deliveries[i]))
      else
        waiting.quarantine(s, bodies[i] and 'a' or 'b', id)
        waiting.let_go(s, id)
      end
    end
  end
  s.is_sweeping = s.is_sweeping or #overdue > 0
  return #overdue
end

-- Make later jobs ready whose time has come, at most `limit`, by time, then id. Where none has, the step knows when the
-- first one will.
function handing.promote(s, limit)
  local first_due = first_of(s.names.l)
  if not first_due or first_due > s.now then
    s.due = first_due
    return
  end
  local due = call('ZRANGE', s.names.l, '-inf', body.text(s.now), 'BYSCORE', 'LIMIT', '0', limit)
  for first = 1, #due, CHUNK do
    local ids = part_of(due, first, CHUNK)
    local bodies = waiting.get_all(s.names.b, ids)
    for i, id in ipairs(ids) do
      s.L[id] = false
      if bodies[i] then
        s.R[id] = waiting.draw(s, bodies[i])
      else
        waiting.quarantine(s, 'b', id)
      end
    end
  end
end

-- Those that became ready in this call among those that were ready before it, by place.
local function merged_ready(s, limit)
  local all = {}
  for id, place in pairs(s.R) do
    if place then
      all[#all + 1] = { place, id }
    end
  end
  if #all == 0 then
    return nil
  end
  local found = call('ZRANGE', s.names.r, 0, limit + LIMITS.expiries - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    if s.R[found[i]] == nil then -- one that left or moved in this call is where the call has put it
      all[#all + 1] = { tonumber(found[i + 1]), found[i] }
    end
  end
  sort(all, function(one, other)
    return one[1] < other[1]
  end)
  return all
end

-- Ready ids in order, from an offset on.
local function ready_from(s, merged, offset, count)
  if not merged then
    return call('ZRANGE', s.names.r, offset, offset + count - 1)
  end
  local ids = {}
  for i = offset + 1, math.min(offset + count, #merged) do
    ids[#ids + 1] = merged[i][2]
  end
  return ids
end

local function bodies_of(s, ids)
  local found = waiting.get_all(s.names.b, ids)
  if next(s.B) ~= nil then
    for i, id in ipairs(ids) do
      found[i] = s.B[id] or found[i]
    end
  end
  return found
end

-- Note the claims of jobs from one on, the first of all with this fence.
local function note_claims(s, handed, from, first_fence)
  local lines, n = s.lines, s.pieces
  for i = from, #handed do
    lines[n + 1], lines[n + 2] = '{"event":"claimed","id":', json.quote(handed[i])
    lines[n + 3], lines[n + 4], lines[n + 5] = ',"fence":', body.text(first_fence + i - 1), '}\n'
    n = n + 5
  end
  s.pieces, s.count = n, s.count + math.max(#handed - from + 1, 0)
end

local CLAIMED_BYTES = #'{"event":"claimed","id":"","fence":}\n'

-- Have the journal keep the claims packed; says whether it does, which it does where ids stand for themselves in JSON.
local function keep_claims(s, handed, first_fence)
  local count, ids = #handed, concat(handed, '\n')
  if s.count > 0 or count == 0 or not json.are_plain({ ids }) then
    return false
  end
  local first, last, digits = body.text(first_fence), body.text(first_fence + count - 1), 0
  if #first == #last then
    digits = count * #first
  else
    for i = 1, count do
      digits = digits + #body.text(first_fence + i - 1)
    end
  end
  journal.keep(s, 'c', #ids - count + 1 + count * CLAIMED_BYTES + digits, first, ids, count)
  return true
end

-- Hand out at most `limit` jobs and `bytes_left` bytes of payloads, in order. One job is always handed out when nothing
-- else was in this call. Returns id and body in turn, how many values these are, and how many bytes are left.
local function hand_out(s, request, limit, bytes_left)
  local merged = merged_ready(s, limit)
  local items, n, expired, offset = {}, 0, 0, 0
  local end_ms = body.text(s.now + request.lease_ms)
  local start = '0' .. pack('>I6', s.now) .. request.nonce .. '.'
  local behind = '\0' .. request.worker .. '\0'
  local handed, leases, deliveries = {}, {}, {}
  local R, head, text, now = s.R, s.head, body.text, s.now
  local first_fence, noted, is_full = head.fence + 1, 0, false
  s.handed, s.leases, s.deliveries = handed, leases, deliveries
  while n < limit * 2 and expired < LIMITS.expiries and not s.is_drained and not is_full do
    local ids = ready_from(s, merged, offset, limit - n / 2)
    local count = #ids
    s.is_drained = not merged and count < limit - n / 2
    if count == 0 then
      break
    end
    offset = offset + count
    local bodies = bodies_of(s, ids)
    for i = 1, count do
      local id, packed = ids[i], bodies[i]
      if not packed then
        R[id] = false
        waiting.quarantine(s, 'b', id)
      elseif byte(packed, 24) >= 64 and body.is_expired(packed, now) then
        note_claims(s, handed, noted + 1, first_fence)
        noted = #handed
        dying.expire(s, id, packed)
        expired = expired + 1
        if expired == LIMITS.expiries then
          s.is_drained = false
          break
        end
      else
        local high, low = byte(packed, 21, 22)
        local head_size = high * 256 + low
        -- The size of the payload, whose first byte is always zero.
        local most, more, least = byte(packed, head_size + 2, head_size + 4)
        local size = most * 65536 + more * 256 + least
        if size > bytes_left and (n > 0 or bytes_left < LIMITS.claim_bytes) then
          s.is_drained, is_full = false, true
          break
        end
        bytes_left = bytes_left - size
        local number = head.fence + 1
        head.fence = number
        local fence = text(number)
        if merged and R[id] then
          R[id] = nil
        end
        handed[n / 2 + 1] = id
        leases[n + 1], leases[n + 2] = end_ms, id
        deliveries[n + 1], deliveries[n + 2] = id, start .. fence .. behind .. sub(packed, 1, head_size)
        items[n + 1], items[n + 2] = id, packed
        n = n + 2
      end
    end
  end
  if noted > 0 or not keep_claims(s, handed, first_fence) then
    note_claims(s, handed, noted + 1, first_fence)
  end
  return items, n, bytes_left
end

-- Remember that a worker was here, and the nonce of its last claim that was handed jobs.
local function see_worker(s, request, was_handed)
  local seen = s.seen
  if was_handed or not seen or cut('>I6', seen) <= s.now - LIMITS.worker_seen_ms then
    local nonce = was_handed and request.nonce or seen and sub(seen, 7) or ''
    call('HSET', s.names.w, request.worker, pack('>I6', s.now) .. nonce)
    call('ZADD', s.names.ws, body.text(s.now), request.worker)
  end
end

-- When it is worth claiming from this shard again; nil for not by itself. Jobs may have been handed out until an instant;
-- where the call has looked already and changed nothing there, it does not look again.
local function next_at(s, handed_until)
  local named, now, is_paused = s.names, s.now, s.cfg.paused
  if not is_paused and not s.is_drained and call('ZCARD', named.r) > 0 then
    return now
  end
  local next_ms = s.lease_end
  if next_ms == nil then
    next_ms = first_of(named.x)
  elseif handed_until and (not next_ms or handed_until < next_ms) then
    next_ms = handed_until
  end
  if not is_paused then
    local due = s.due
    if due == nil then
      due = first_of(named.l)
    end
    if due and (not next_ms or due < next_ms) then
      next_ms = due
    end
  end
  return next_ms and math.max(next_ms, now)
end

-- Repair, promote and hand out on one shard. Returns what was handed out after the fence of the first, how much that is,
-- and how many bytes are left.
local function claim_one(s, request, limit, bytes_left)
  s.worker, s.lease_end, s.due, s.is_drained = request.worker, nil, nil, nil
  local repaired = handing.repair(s, LIMITS.repairs)
  handing.promote(s, LIMITS.promotions)
  if repaired > 0 then
    s.due = nil -- a death may have freed a blocked job that is due later
  end
  local first_fence = s.head.fence + 1
  local items, n = {}, 0
  if not s.cfg.paused then
    items, n, bytes_left = hand_out(s, request, limit, bytes_left)
  end
  return { s.cfg.priority, s.cfg.timeout_ms, first_fence, items }, n / 2, bytes_left
end

function handing.request_of(args, at)
  return { worker = args[at], nonce = args[at + 1], lease_ms = args[at + 2] + 0 }
end

-- Whether this claim was answered before. What is kept of a worker: when it was seen 6, then the nonce of its last claim
-- that was handed jobs.
function handing.is_known(s, request)
  s.seen = call('HGET', s.names.w, request.worker)
  return s.seen and sub(s.seen, 7) == request.nonce
end

-- What an earlier call with this nonce was handed on a shard and still holds: id, body, fence, claimed_at and end in
-- turn, by fence.
function handing.held_by(s, request)
  local mine, count = {}, call('ZCARD', s.names.x)
  local token_start = request.nonce .. '.'
  for first = 0, count - 1, LIMITS.batch do
    local page = call('ZRANGE', s.names.x, first, first + LIMITS.batch - 1, 'WITHSCORES')
    local ids, ends = {}, {}
    for i = 1, #page, 2 do
      ids[#ids + 1], ends[#ends + 1] = page[i], tonumber(page[i + 1])
    end
    for i, packed in ipairs(waiting.get_all(s.names.a, ids)) do
      if packed and ends[i] > s.now and sub(packed, 8, 7 + #token_start) == token_start then
        local delivery = body.delivery(packed)
        if delivery.worker == request.worker and delivery.nonce == request.nonce then
          delivery.id, delivery.end_ms = ids[i], ends[i]
          mine[#mine + 1] = delivery
        end
      end
    end
  end
  sort(mine, function(one, other)
    return one.fence < other.fence
  end)
  local items = {}
  for _, each in ipairs(mine) do
    local packed = call('HGET', s.names.b, each.id)
    if packed then
      for _, part in ipairs({ each.id, packed, each.fence, each.claimed_at, each.end_ms }) do
        items[#items + 1] = part
      end
    end
  end
  return { s.cfg.priority, s.cfg.timeout_ms, 0, items }
end

-- The claims of an earlier call with this nonce.
local function claim_again(found, request, now)
  local answers = { dying.handed_on(found), 1, now, false }
  for i, s in ipairs(found) do
    answers[i + 4] = s and handing.held_by(s, request)
    answers[4] = answers[4] or s and now
  end
  return answers
end

-- A claim over shards in the order of visiting; answers as claim.lua says. All shards decide before any is written: a job
-- that dies on one may be handed out on another, or leaves work on one that was visited before.
function handing.claim(found, request, now, limit, bytes_left)
  for _, s in ipairs(found) do
    if s and handing.is_known(s, request) then
      return claim_again(found, request, now)
    end
  end
  local answers, next_ms, visited = { '', 0, now, false }, nil, {}
  shard.join(found)
  for i, s in ipairs(found) do
    answers[i + 4] = false
    if s and (limit == 0 or bytes_left <= 0) then
      next_ms = now
    elseif s then
      local handed
      answers[i + 4], handed, bytes_left = claim_one(s, request, limit, bytes_left)
      limit = limit - handed
      visited[#visited + 1] = { s, handed > 0 }
    end
  end
  answers[1] = dying.handed_on(found)
  finish_all(found)
  for _, visit in ipairs(visited) do
    local s, was_handed = visit[1], visit[2]
    see_worker(s, request, was_handed)
    local again_ms = next_at(s, was_handed and now + request.lease_ms)
    if again_ms and (not next_ms or again_ms < next_ms) then
      next_ms = again_ms
    end
  end
  answers[4] = next_ms or false
  return answers
end
