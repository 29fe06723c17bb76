-- One chunk of a scan over the ids of a state.
--
-- keys     the `m` key of a shard
-- args     number of shards, state, cursor of the scan, about how many to look at, after how many bytes to stop, id behind
--          which the list goes on, id before which it ends or ''; then 0
-- answers  nil when the shard is not there, else epoch, seq, the next cursor ('0' at the end) and the ids
-- flags    no-writes
local function is_before(one, other)
  -- Lua compares texts as the server's locale wants it, ids are compared by byte.
  for at = 1, math.min(#one, #other) do
    local left, right = byte(one, at), byte(other, at)
    if left ~= right then
      return left < right
    end
  end
  return #one < #other
end

local function is_finished_job(state)
  return function(_, _, packed)
    return finished_job.state(packed) == state
  end
end

-- Where the ids of a state stand, and what else must be so of one of them. A job that waits is looked for among the
-- bodies: there it stays while it goes from later to ready and back.
local STATES = {
  waiting = {
    'HSCAN',
    'b',
    function(s, id)
      return call('HEXISTS', s.names.a, id) == 0
    end,
  },
  active = { 'ZSCAN', 'x' },
  blocked = { 'HSCAN', 't' },
  done = { 'HSCAN', 'o', is_finished_job('done') },
  cancelled = { 'HSCAN', 'o', is_finished_job('cancelled') },
}

local function run(keys, args)
  local found, refused = shard.look(keys, args[1])
  if refused then
    return refused
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local command, suffix, also = unpack(STATES[args[2]])
  local key, limit, bytes = s.names[suffix], tonumber(args[4]), tonumber(args[5])
  local names, values, cursor = steps.take(command, key, args[3], limit, bytes)
  local ids, n = {}, 0
  for at, id in ipairs(names) do
    local is_wanted = is_before(args[6], id) and (args[7] == '' or is_before(id, args[7]))
    if is_wanted and (not also or also(s, id, values[at])) then
      n = n + 1
      ids[n] = id
    end
  end
  return { { body.text(s.head.epoch), body.text(s.head.seq), cursor, ids } }
end
