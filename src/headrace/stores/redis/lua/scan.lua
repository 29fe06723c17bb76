-- A part of a scan over the live jobs, the finished jobs or the dead letters of a shard. The answer names the epoch
-- that the next write will have, so the call itself notes a restart of the server.
--
-- A cursor of the server's scans is a position in its hash tables, which another server, or the same one after a
-- restart, orders otherwise. So a cursor is given with the id of its server, and a scan that has lost its server starts
-- again.
--
-- uses     numbers, shard, records, finished_jobs, dead_letters, bounded_scan
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', group, id of the cursor's server, cursor, about how many records to scan,
--          after how many bytes to stop, '1' to read payloads and results; then 0
-- answers  nil when the shard does not exist, else now_ms, epoch, seq, 1 when it is paused, id of the server, next
--          cursor ('0' at the end), and in turn for each of alive: id, body, order key when ready, delivery, end of its
--          lease, blocked job, each nil for none; of ended: id, finished job; of dead: number, dead letter
-- flags    allow-oom
--
-- The key with the records of a group, the end of a record that expires, and what leaves its result out.
local GROUPS = {
  alive = { 'bodies' },
  ended = { 'finished', finished_jobs.until_ms, finished_jobs.without_result },
  dead = { 'dead_letters', dead_letters.until_ms },
}

-- The records that have not expired.
local function kept(s, members, values, until_ms, shorten)
  local flat, n = {}, 0
  for i = 1, #members do
    if s.now < until_ms(values[i]) then
      flat[n + 1], flat[n + 2] = members[i], shorten and shorten(values[i]) or values[i]
      n = n + 2
    end
  end
  return flat
end

local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local key_name, until_ms, shorten = unpack(GROUPS[args[3]])
  local with_payloads = args[8] == '1'
  local cursor = args[4] == shard.server_id() and args[5] or '0'
  local hash, limit, bytes = s.names[key_name], tonumber(args[6]), tonumber(args[7])
  local members, values, next_cursor = bounded_scan.read('HSCAN', hash, cursor, limit, bytes)
  return {
    {
      numbers.text(now),
      numbers.text(s.counters.epoch),
      numbers.text(s.counters.seq),
      s.cfg.paused and 1 or 0,
      shard.server_id(),
      next_cursor,
      until_ms and kept(s, members, values, until_ms, not with_payloads and shorten)
        or records.of_live(s, members, values, with_payloads),
    },
  }
end
