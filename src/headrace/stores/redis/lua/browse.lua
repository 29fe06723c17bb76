-- The next rows of shards in the order of a view, without payloads and results.
--
-- uses     numbers, chunked, shard, records, finished_jobs
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or '', view, limit; per shard how many arguments, and these: of next the order key
--          behind which to continue; of later and active the time and the id; of finished two numbers below which to
--          continue, for the unpinned and the pinned ones; of dead one
-- answers  per shard: nil where it does not exist, else now_ms, 1 when it is paused, and per lane: 1 when nothing
--          follows, and its rows in turn: of next, later and active as records.of_live; of finished number, id and
--          finished job, with false for an entry to pass over; of dead number and dead letter
-- flags    no-writes
local SCAN_MAX = 1000 -- entries of dropped finished jobs that a page passes over

-- The ids behind a score and an id: those of one score stand by id.
local function ids_behind(key, score, id, limit)
  local first, last = call('ZCOUNT', key, '-inf', '(' .. score), call('ZCOUNT', key, '-inf', score)
  while first < last do
    local middle = floor((first + last) / 2)
    if records.is_before(id, call('ZRANGE', key, middle, middle)[1]) then
      last = middle
    else
      first = middle + 1
    end
  end
  return call('ZRANGE', key, first, first + limit - 1)
end

local function live_lane(s, ids, limit)
  local bodies = chunked.get_values(s.names.bodies, ids)
  return { #ids < limit and 1 or 0, records.of_live(s, ids, bodies, false) }
end

local function shorten(packed)
  return packed and finished_jobs.without_result(packed)
end

local function unpinned_lane(s, below, limit)
  local newest, flat, n, ids, numbers_of = s.counters.finished_number, {}, 0, {}, {}
  local first = math.max(newest - below + 1, 0)
  local at, is_rest = first, false
  while #ids < limit and at - first < SCAN_MAX and not is_rest do
    local wanted = math.min(limit - #ids, SCAN_MAX)
    local entries = call('LRANGE', s.names.finished_unpinned, at, at + wanted - 1)
    for i = 1, #entries do
      if entries[i] ~= '' then
        ids[#ids + 1] = finished_jobs.id_of(entries[i])
        numbers_of[#ids] = newest - (at + i - 1)
      end
    end
    at, is_rest = at + #entries, #entries < wanted
  end
  local found = chunked.get_values(s.names.finished, ids)
  for i = 1, #ids do
    flat[n + 1], flat[n + 2], flat[n + 3] = numbers.text(numbers_of[i]), ids[i], shorten(found[i])
    n = n + 3
  end
  if not is_rest and #ids < limit then
    flat[n + 1], flat[n + 2], flat[n + 3] = numbers.text(newest - at + 1), '', false
  end
  return { is_rest and 1 or 0, flat }
end

local function pinned_lane(s, below, limit)
  local scored = call(
    'ZRANGE', s.names.finished_pinned_order, '(' .. below, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, limit, 'WITHSCORES')
  local ids, flat = {}, {}
  for i = 1, #scored, 2 do
    ids[#ids + 1] = scored[i]
  end
  local found = chunked.get_values(s.names.finished, ids)
  for i = 1, #ids do
    flat[3 * i - 2], flat[3 * i - 1], flat[3 * i] = scored[2 * i], ids[i], shorten(found[i])
  end
  return { #ids < limit and 1 or 0, flat }
end

local function dead_lane(s, below, limit)
  local found = call('ZRANGE', s.names.dead_letter_numbers, '(' .. below, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, limit)
  local values, flat = chunked.get_values(s.names.dead_letters, found), {}
  for i = 1, #found do
    flat[2 * i - 1], flat[2 * i] = found[i], values[i]
  end
  return { #found < limit and 1 or 0, flat }
end

local VIEWS = {
  next = function(s, limit, after)
    return { live_lane(s, call('ZRANGE', s.names.ready, '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, limit), limit) }
  end,
  later = function(s, limit, score, id)
    return { live_lane(s, ids_behind(s.names.later, score, id, limit), limit) }
  end,
  active = function(s, limit, score, id)
    return { live_lane(s, ids_behind(s.names.leases, score, id, limit), limit) }
  end,
  finished = function(s, limit, unpinned, pinned)
    return { unpinned_lane(s, tonumber(unpinned), limit), pinned_lane(s, pinned, limit) }
  end,
  dead = function(s, limit, below)
    return { dead_lane(s, below, limit) }
  end,
}

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.read(keys, args[1], now)
  if refusal then
    return refusal
  end
  local read, limit, answers, at = VIEWS[args[3]], tonumber(args[4]), {}, 5
  for index, s in ipairs(found) do
    local last = at + tonumber(args[at])
    answers[index] = s
      and { numbers.text(now), s.cfg.paused and 1 or 0, unpack(read(s, limit, unpack(args, at + 1, last))) }
    at = last + 1
  end
  return answers
end
