-- One chunk of a scan over the ids of a state.
--
-- keys     the `m` key of a shard
-- args     number of shards, state, cursor of the scan, about how many to look at, id behind which the list goes on, id
--          before which it ends or ''; then 0
-- answers  nil when the shard is not there, else the next cursor ('0' at the end) and the ids
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

local function is_ending(state)
  return function(_, _, packed)
    return ending.state(packed) == state
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
  done = { 'HSCAN', 'o', is_ending('done') },
  cancelled = { 'HSCAN', 'o', is_ending('cancelled') },
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
  local cursor, flat = unpack(call(command, s.names[suffix], args[3], 'COUNT', args[4]))
  local ids = {}
  for at = 1, #flat, 2 do
    local id = flat[at]
    local is_wanted = is_before(args[5], id) and (args[6] == '' or is_before(id, args[6]))
    if is_wanted and (not also or also(s, id, flat[at + 1])) then
      ids[#ids + 1] = id
    end
  end
  return { { cursor, ids } }
end
