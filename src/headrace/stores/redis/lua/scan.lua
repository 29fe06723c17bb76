-- A part of a scan over the jobs that wait or run, the finished jobs or the dead letters of a shard. What it says of the epoch is
-- what the next to write will note, so it notes that itself after a restart of the server.
--
-- A cursor of the server's own scans means a place in its hash tables, which another server, or the same one started again,
-- orders otherwise: it is given with the server that gave it, and a scan that has lost its server starts anew.
--
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', group, server that gave the cursor, cursor, about how many records to look at,
--          after how many bytes to stop; then 0
-- answers  nil when the shard is not there, else now_ms, epoch, seq, whether it is paused, server, next cursor ('0' at the
--          end), and in turn for each of alive: id, body, place among the ready ones, delivery, end of its lease, blocked job, each
--          nil for none; of ended: id, finished job; of dead: number, dead letter
-- flags    allow-oom
-- Where the records of a group stand, and until when one is kept.
local GROUPS = { alive = { 'b' }, ended = { 'o', finished_job.until_ms }, dead = { 'd', dead_letters.until_ms } }

local function alive(s, ids, bodies)
  local named, flat, n = s.names, {}, 0
  local are_active, are_blocked = call('ZCARD', named.x) > 0, call('HLEN', named.t) > 0
  local places = waiting.scores(named.r, ids)
  local deliveries = are_active and waiting.get_all(named.a, ids) or {}
  local ends = are_active and waiting.scores(named.x, ids) or {}
  local blocked = are_blocked and waiting.get_all(named.t, ids) or {}
  for i = 1, #ids do
    flat[n + 1], flat[n + 2], flat[n + 3] = ids[i], bodies[i], places[i]
    flat[n + 4], flat[n + 5], flat[n + 6] = deliveries[i] or false, ends[i] or false, blocked[i] or false
    n = n + 6
  end
  return flat
end

-- Those whose time is not over.
local function kept(s, names, values, until_ms)
  local flat, n = {}, 0
  for i = 1, #names do
    if s.now < until_ms(values[i]) then
      flat[n + 1], flat[n + 2] = names[i], values[i]
      n = n + 2
    end
  end
  return flat
end

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refused = shard.open(keys, args[1], now)
  if refused then
    return refused
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local suffix, until_ms = unpack(GROUPS[args[3]])
  local cursor = args[4] == shard.server() and args[5] or '0'
  local hash, limit, bytes = s.names[suffix], tonumber(args[6]), tonumber(args[7])
  local names, values, next_cursor = steps.take('HSCAN', hash, cursor, limit, bytes)
  return {
    {
      body.text(now),
      body.text(s.head.epoch),
      body.text(s.head.seq),
      s.cfg.paused and 1 or 0,
      shard.server(),
      next_cursor,
      until_ms and kept(s, names, values, until_ms) or alive(s, names, values),
    },
  }
end
