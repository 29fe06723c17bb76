-- Check a part of a shard for records that contradict each other.
--
-- uses     numbers, journal, shard, integrity
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', phase, cursor, about how many records to check; then 0
-- answers  nil when the shard does not exist, else its journal as journal_bounds.lua answers, how many leases have
--          expired (at most the limit), the quarantine, and the result of integrity.walk
-- flags    no-writes
local function run(keys, args)
  local now, limit = shard.now(args[2]), tonumber(args[5])
  local found, refusal = shard.read(keys, args[1], now)
  if refusal then
    return refusal
  end
  local s = found[1]
  if not s then
    return { false }
  end
  return {
    {
      journal.bounds(s),
      #call('ZRANGE', s.names.leases, '-inf', numbers.text(now), 'BYSCORE', 'LIMIT', 0, limit),
      integrity.read_quarantine(s),
      integrity.walk(s, tonumber(args[3]), args[4], limit, false),
    },
  }
end
