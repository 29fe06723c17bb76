-- Look at a part of a shard for what does not fit together.
--
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', phase, cursor, about how many records to look at; then 0
-- answers  nil when the shard is not there, else its journal as journal_bounds has it, how many leases have run out (as far
--          as the limit), the quarantine, and what mending.walk answers
-- flags    no-writes
local function run(keys, args)
  local now, limit = shard.now(args[2]), tonumber(args[5])
  local found, refused = shard.look(keys, args[1], now)
  if refused then
    return refused
  end
  local s = found[1]
  if not s then
    return { false }
  end
  return {
    {
      journal.bounds(s),
      #call('ZRANGE', s.names.x, '-inf', body.text(now), 'BYSCORE', 'LIMIT', 0, limit),
      healing.quarantine(s),
      mending.walk(s, tonumber(args[3]), args[4], limit, false),
    },
  }
end
