-- All records of ids.
--
-- uses     numbers, shard, dead_letters
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; per shard: how many ids, and these
-- answers  per shard: nil where it does not exist, else now_ms, 1 when it is paused, and per id: body, order key when
--          ready, delivery, end of its lease, blocked job, finished job, dead letters as number and dead letter in
--          turn; each nil for none
-- flags    no-writes
local function dead_letters_of(s, id)
  local found = {}
  for _, number in ipairs(dead_letters.numbers_of(s, id)) do
    local dead_letter = call('HGET', s.names.dead_letters, number)
    if dead_letter then
      found[#found + 1] = number
      found[#found + 1] = dead_letter
    end
  end
  return found
end

local function records_of(s, args, first, last)
  local names, records = s.names, {}
  local has_active, has_blocked = call('ZCARD', names.leases) > 0, call('HLEN', names.blocked) > 0
  local has_finished, has_dead = call('HLEN', names.finished) > 0, call('HLEN', names.dead_letters) > 0
  for at = first, last do
    local id = args[at]
    records[#records + 1] = {
      call('HGET', names.bodies, id),
      call('ZSCORE', names.ready, id),
      has_active and call('HGET', names.deliveries, id),
      has_active and call('ZSCORE', names.leases, id),
      has_blocked and call('HGET', names.blocked, id),
      has_finished and call('HGET', names.finished, id),
      has_dead and dead_letters_of(s, id) or {},
    }
  end
  return records
end

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.read(keys, args[1], now)
  if refusal then
    return refusal
  end
  local answers, at = {}, 3
  for index, s in ipairs(found) do
    local last = at + tonumber(args[at])
    answers[index] = s and { numbers.text(now), s.cfg.paused and 1 or 0, records_of(s, args, at + 1, last) }
    at = last + 1
  end
  return answers
end
