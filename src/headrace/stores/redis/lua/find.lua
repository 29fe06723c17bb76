-- All that shards know of ids.
--
-- keys     the `m` keys of shards of one queue
-- args     number of shards, now_ms or ''; per shard: how many ids, and these
-- answers  per shard: nil for one that is not there, else now_ms, whether it is paused, and per id: body, place among the
--          ready ones, delivery, end of its lease, blocked job, finished job, dead letters as number and dead letter in turn; each nil for none
-- flags    no-writes
local function dead_letters_of(s, id)
  local found = {}
  for _, number in ipairs(dead_letters.numbers_of(s, id)) do
    local dead_letter = call('HGET', s.names.d, number)
    if dead_letter then
      found[#found + 1] = number
      found[#found + 1] = dead_letter
    end
  end
  return found
end

local function known_of(s, args, first, last)
  local named, known = s.names, {}
  local are_active, are_blocked = call('ZCARD', named.x) > 0, call('HLEN', named.t) > 0
  local are_over, are_dead = call('HLEN', named.o) > 0, call('HLEN', named.d) > 0
  for at = first, last do
    local id = args[at]
    known[#known + 1] = {
      call('HGET', named.b, id),
      call('ZSCORE', named.r, id),
      are_active and call('HGET', named.a, id),
      are_active and call('ZSCORE', named.x, id),
      are_blocked and call('HGET', named.t, id),
      are_over and call('HGET', named.o, id),
      are_dead and dead_letters_of(s, id) or {},
    }
  end
  return known
end

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refused = shard.look(keys, args[1], now)
  if refused then
    return refused
  end
  local answers, at = {}, 3
  for index, s in ipairs(found) do
    local last = at + tonumber(args[at])
    answers[index] = s and { body.text(now), s.cfg.paused and 1 or 0, known_of(s, args, at + 1, last) }
    at = last + 1
  end
  return answers
end
