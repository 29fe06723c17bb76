-- A part of a scan over the ids of jobs in one state.
--
-- uses     numbers, shard, records, finished_jobs, bounded_scan
-- keys     the `m` key of a shard
-- args     number of shards, state, cursor of the scan, about how many ids to scan, after how many bytes to stop, the
--          id behind which and the id before which ids are wanted, each or ''; then 0
-- answers  nil when the shard does not exist, else epoch, seq, the next cursor ('0' at the end) and the ids
-- flags    no-writes
local function is_finished_as(state)
  return function(_, _, packed)
    return finished_jobs.state(packed) == state
  end
end

-- The key with the ids of a state, and a further condition. Waiting jobs are found among the bodies, where they stay
-- while they move from later to ready and back.
local STATES = {
  waiting = {
    'HSCAN',
    'bodies',
    function(s, id)
      return call('HEXISTS', s.names.deliveries, id) == 0
    end,
  },
  active = { 'ZSCAN', 'leases' },
  blocked = { 'HSCAN', 'blocked' },
  done = { 'HSCAN', 'finished', is_finished_as('done') },
  cancelled = { 'HSCAN', 'finished', is_finished_as('cancelled') },
}

local function run(keys, args)
  local found, refusal = shard.read(keys, args[1])
  if refusal then
    return refusal
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local command, key_name, condition = unpack(STATES[args[2]])
  local key, limit, bytes = s.names[key_name], tonumber(args[4]), tonumber(args[5])
  local members, values, cursor = bounded_scan.read(command, key, args[3], limit, bytes)
  local ids, n = {}, 0
  for at, id in ipairs(members) do
    local is_wanted = records.is_before(args[6], id) and (args[7] == '' or records.is_before(id, args[7]))
    if is_wanted and (not condition or condition(s, id, values[at])) then
      n = n + 1
      ids[n] = id
    end
  end
  return { { numbers.text(s.counters.epoch), numbers.text(s.counters.seq), cursor, ids } }
end
