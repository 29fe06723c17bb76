-- Claim: repair expired leases, promote jobs that are due, and hand out ready jobs.
--
-- uses  json, numbers, job_codec, chunked, journal, shard, live_jobs, death, outcome, step

local claim = {}

local CHUNK = 100

local function chunk_of(ids, first, size)
  local part = {}
  for i = first, math.min(first + size - 1, #ids) do
    part[#part + 1] = ids[i]
  end
  return part
end

-- The lowest score of a sorted set; false when it is empty.
local function lowest_score(key)
  local score = call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]
  return score and score + 0 or false
end

-- Take back jobs whose lease has expired, at most `limit`, by end, then id; returns how many. Where there is none, the
-- step remembers when the first lease ends.
function claim.repair(s, limit)
  local first_end = lowest_score(s.names.leases)
  if not first_end or first_end > s.now then
    s.first_lease_end = first_end
    return 0
  end
  local overdue = call('ZRANGE', s.names.leases, '-inf', numbers.text(s.now), 'BYSCORE', 'LIMIT', '0', limit)
  for first = 1, #overdue, CHUNK do
    local ids = chunk_of(overdue, first, CHUNK)
    local deliveries, bodies = chunked.get_values(s.names.deliveries, ids), chunked.get_values(s.names.bodies, ids)
    for i, id in ipairs(ids) do
      if bodies[i] and deliveries[i] then
        outcome.stall(s, id, bodies[i], job_codec.delivery(deliveries[i]))
      else
        live_jobs.quarantine(s, bodies[i] and 'a' or 'b', id)
        live_jobs.drop_lease(s, id)
      end
    end
  end
  s.must_sweep = s.must_sweep or #overdue > 0
  return #overdue
end

-- Make later jobs ready that are due, at most `limit`, by time, then id. Where there is none, the step remembers when
-- the first one is due.
function claim.promote(s, limit)
  local first_due = lowest_score(s.names.later)
  if not first_due or first_due > s.now then
    s.first_due = first_due
    return
  end
  local due = call('ZRANGE', s.names.later, '-inf', numbers.text(s.now), 'BYSCORE', 'LIMIT', '0', limit)
  for first = 1, #due, CHUNK do
    local ids = chunk_of(due, first, CHUNK)
    local bodies = chunked.get_values(s.names.bodies, ids)
    for i, id in ipairs(ids) do
      s.later[id] = false
      if bodies[i] then
        s.ready[id] = live_jobs.next_order_key(s, bodies[i])
      else
        live_jobs.quarantine(s, 'b', id)
      end
    end
  end
end

-- The jobs that became ready in this call among those that were ready before it, by order key; nil when there are none.
local function merged_ready(s, limit)
  local all = {}
  for id, order_key in pairs(s.ready) do
    if order_key then
      all[#all + 1] = { order_key, id }
    end
  end
  if #all == 0 then
    return nil
  end
  local found = call('ZRANGE', s.names.ready, 0, limit + LIMITS.expiries_per_call_max - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    if s.ready[found[i]] == nil then -- not a job that this call has moved
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
    return call('ZRANGE', s.names.ready, offset, offset + count - 1)
  end
  local ids = {}
  for i = offset + 1, math.min(offset + count, #merged) do
    ids[#ids + 1] = merged[i][2]
  end
  return ids
end

local function bodies_of(s, ids)
  local found = chunked.get_values(s.names.bodies, ids)
  if next(s.bodies) ~= nil then
    for i, id in ipairs(ids) do
      found[i] = s.bodies[id] or found[i]
    end
  end
  return found
end

-- Add the journal lines of claimed jobs from index `from` on; `first_fence` is the fence of the first of all.
local function add_claim_lines(s, ids, from, first_fence)
  local lines, n = s.lines, s.piece_count
  for i = from, #ids do
    lines[n + 1], lines[n + 2] = '{"event":"claimed","id":', json.quote(ids[i])
    lines[n + 3], lines[n + 4], lines[n + 5] = ',"fence":', numbers.text(first_fence + i - 1), '}\n'
    n = n + 5
  end
  s.piece_count, s.line_count = n, s.line_count + math.max(#ids - from + 1, 0)
end

local LINE_BYTES = #'{"event":"claimed","id":"","fence":}\n'

-- Add the packed line of all claims; false where an id needs escaping in JSON or the call has other lines.
local function add_packed_claims(s, claimed_ids, first_fence)
  local count, ids = #claimed_ids, concat(claimed_ids, '\n')
  if s.line_count > 0 or count == 0 or not json.are_plain({ ids }) then
    return false
  end
  local first, last, digits = numbers.text(first_fence), numbers.text(first_fence + count - 1), 0
  if #first == #last then
    digits = count * #first
  else
    for i = 1, count do
      digits = digits + #numbers.text(first_fence + i - 1)
    end
  end
  journal.add_packed(s, 'c', #ids - count + 1 + count * LINE_BYTES + digits, first, ids, count)
  return true
end

-- Hand out at most `limit` jobs and `bytes_left` bytes of payloads, in order; one job of any size when it is the first
-- of the call. Returns id and body in turn, how many values these are, and how many bytes are left.
local function hand_out(s, request, limit, bytes_left)
  local merged = merged_ready(s, limit)
  local flat, n, expired, offset = {}, 0, 0, 0
  local end_ms = numbers.text(s.now + request.lease_ms)
  local start = '0' .. struct_pack('>I6', s.now) .. request.nonce .. '.'
  local suffix = '\0' .. request.worker .. '\0'
  local claimed_ids, leases, deliveries = {}, {}, {}
  local ready, counters, text, now = s.ready, s.counters, numbers.text, s.now
  local first_fence, line_count, is_full = counters.fence + 1, 0, false
  s.claimed_ids, s.claimed_leases, s.claimed_deliveries = claimed_ids, leases, deliveries
  while n < limit * 2 and expired < LIMITS.expiries_per_call_max and not s.is_drained and not is_full do
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
        ready[id] = false
        live_jobs.quarantine(s, 'b', id)
      elseif byte(packed, 24) >= 64 and job_codec.is_expired(packed, now) then
        add_claim_lines(s, claimed_ids, line_count + 1, first_fence)
        line_count = #claimed_ids
        death.expire(s, id, packed)
        expired = expired + 1
        if expired == LIMITS.expiries_per_call_max then
          s.is_drained = false
          break
        end
      else
        local high, low = byte(packed, 21, 22)
        local head_size = high * 256 + low
        -- The size of the payload, whose first byte is always zero.
        local most, more, least = byte(packed, head_size + 2, head_size + 4)
        local size = most * 65536 + more * 256 + least
        if size > bytes_left and (n > 0 or bytes_left < LIMITS.claim_bytes_max) then
          s.is_drained, is_full = false, true
          break
        end
        bytes_left = bytes_left - size
        local number = counters.fence + 1
        counters.fence = number
        local fence = text(number)
        if merged and ready[id] then
          ready[id] = nil
        end
        claimed_ids[n / 2 + 1] = id
        leases[n + 1], leases[n + 2] = end_ms, id
        deliveries[n + 1], deliveries[n + 2] = id, start .. fence .. suffix .. sub(packed, 1, head_size)
        flat[n + 1], flat[n + 2] = id, packed
        n = n + 2
      end
    end
  end
  if line_count > 0 or not add_packed_claims(s, claimed_ids, first_fence) then
    add_claim_lines(s, claimed_ids, line_count + 1, first_fence)
  end
  return flat, n, bytes_left
end

-- Remember when the worker was seen, and the nonce of its last claim that got jobs.
local function note_worker(s, request, got_jobs)
  local seen = s.worker_seen
  if got_jobs or not seen or struct_unpack('>I6', seen) <= s.now - LIMITS.worker_seen_ms then
    local nonce = got_jobs and request.nonce or seen and sub(seen, 7) or ''
    call('HSET', s.names.workers, request.worker, struct_pack('>I6', s.now) .. nonce)
    call('ZADD', s.names.workers_seen, numbers.text(s.now), request.worker)
  end
end

-- When to claim from this shard again; nil for never without a hint. `lease_end` is the end of the leases that the call
-- has granted. What the call has read and not changed is not read again.
local function next_claim_at(s, lease_end)
  local names, now, is_paused = s.names, s.now, s.cfg.paused
  if not is_paused and not s.is_drained and call('ZCARD', names.ready) > 0 then
    return now
  end
  local next_ms = s.first_lease_end
  if next_ms == nil then
    next_ms = lowest_score(names.leases)
  elseif lease_end and (not next_ms or lease_end < next_ms) then
    next_ms = lease_end
  end
  if not is_paused then
    local due = s.first_due
    if due == nil then
      due = lowest_score(names.later)
    end
    if due and (not next_ms or due < next_ms) then
      next_ms = due
    end
  end
  return next_ms and math.max(next_ms, now)
end

-- Repair, promote and hand out on one shard. Returns its answer, how many jobs it hands out, and how many bytes are
-- left.
local function claim_shard(s, request, limit, bytes_left)
  s.worker, s.first_lease_end, s.first_due, s.is_drained = request.worker, nil, nil, nil
  local repaired = claim.repair(s, LIMITS.repairs_per_call_max)
  claim.promote(s, LIMITS.promotions_per_call_max)
  if repaired > 0 then
    s.first_due = nil -- a death may have freed a blocked job that is due later
  end
  local first_fence = s.counters.fence + 1
  local flat, n = {}, 0
  if not s.cfg.paused then
    flat, n, bytes_left = hand_out(s, request, limit, bytes_left)
  end
  return { s.cfg.priority, s.cfg.timeout_ms, first_fence, flat }, n / 2, bytes_left
end

function claim.read_request(args, at)
  return { worker = args[at], nonce = args[at + 1], lease_ms = args[at + 2] + 0 }
end

-- Whether this claim was answered before. A worker is packed: when it was seen 6 · nonce of its last claim that got
-- jobs.
function claim.is_repeated(s, request)
  s.worker_seen = call('HGET', s.names.workers, request.worker)
  return s.worker_seen and sub(s.worker_seen, 7) == request.nonce
end

-- The jobs that an earlier call with this nonce claimed on a shard and that are still leased: id, body, fence,
-- claimed_at and end of the lease in turn, by fence.
function claim.earlier_claims(s, request)
  local claims, count = {}, call('ZCARD', s.names.leases)
  local token_start = request.nonce .. '.'
  for first = 0, count - 1, LIMITS.batch_max do
    local page = call('ZRANGE', s.names.leases, first, first + LIMITS.batch_max - 1, 'WITHSCORES')
    local ids, ends = {}, {}
    for i = 1, #page, 2 do
      ids[#ids + 1], ends[#ends + 1] = page[i], tonumber(page[i + 1])
    end
    for i, packed in ipairs(chunked.get_values(s.names.deliveries, ids)) do
      if packed and ends[i] > s.now and sub(packed, 8, 7 + #token_start) == token_start then
        local delivery = job_codec.delivery(packed)
        if delivery.worker == request.worker and delivery.nonce == request.nonce then
          delivery.id, delivery.end_ms = ids[i], ends[i]
          claims[#claims + 1] = delivery
        end
      end
    end
  end
  sort(claims, function(one, other)
    return one.fence < other.fence
  end)
  local flat = {}
  for _, delivery in ipairs(claims) do
    local packed = call('HGET', s.names.bodies, delivery.id)
    if packed then
      for _, value in ipairs({ delivery.id, packed, delivery.fence, delivery.claimed_at, delivery.end_ms }) do
        flat[#flat + 1] = value
      end
    end
  end
  return { s.cfg.priority, s.cfg.timeout_ms, 0, flat }
end

-- The answer of a repeated claim.
local function repeat_claims(found, request, now)
  local answers = { death.fail_queue_flags(found), 1, now, false }
  for i, s in ipairs(found) do
    answers[i + 4] = s and claim.earlier_claims(s, request)
    answers[4] = answers[4] or s and now
  end
  return answers
end

-- Claim from shards in the order of visiting; answers as the operation claim.lua does. All shards decide before any is
-- written: a death on one shard may add a fail job to another, even to an earlier one.
function claim.claim_shards(found, request, now, limit, bytes_left)
  for _, s in ipairs(found) do
    if s and claim.is_repeated(s, request) then
      return repeat_claims(found, request, now)
    end
  end
  local answers, next_ms, visited = { '', 0, now, false }, nil, {}
  shard.link(found)
  for i, s in ipairs(found) do
    answers[i + 4] = false
    if s and (limit == 0 or bytes_left <= 0) then
      next_ms = now
    elseif s then
      local claimed
      answers[i + 4], claimed, bytes_left = claim_shard(s, request, limit, bytes_left)
      limit = limit - claimed
      visited[#visited + 1] = { s, claimed > 0 }
    end
  end
  answers[1] = death.fail_queue_flags(found)
  step.commit_all(found)
  for _, visit in ipairs(visited) do
    local s, got_jobs = visit[1], visit[2]
    note_worker(s, request, got_jobs)
    local claim_at = next_claim_at(s, got_jobs and now + request.lease_ms)
    if claim_at and (not next_ms or claim_at < next_ms) then
      next_ms = claim_at
    end
  end
  answers[4] = next_ms or false
  return answers
end

return claim
