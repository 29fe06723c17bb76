-- Every record of a shard at one instant of its journal. One step, since a snapshot of several would be of none; what it
-- sends of a body is its head.
--
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or ''; then 0
-- answers  nil when the shard is not there, else now_ms, epoch, seq, configuration; waiting jobs as id and body, active
--          ones as id, body and delivery, blocked jobs, finished jobs and dead letters as name and value in turn
-- flags    allow-oom
local NO_TAIL = '\0\0\0\0\0\0'

-- What stands before the body that starts at a place, and the body without its payload.
local function shortened(packed, at)
  return sub(packed, 1, at - 1) .. body.head(sub(packed, at)) .. NO_TAIL
end

local function blocked_job(packed)
  return shortened(packed, 14)
end

local function without_result(packed)
  local at = NUMBER_AT + 6
  return sub(packed, 1, at - 1) .. body.head(sub(packed, at))
end

local function dead_letter(packed)
  local id_size, class_size, message_size = cut('>I2I2I2', packed, 14)
  return shortened(packed, 20 + id_size + class_size + message_size)
end

-- Names and shortened values of a hash in turn, behind those that are there.
local function add(flat, hash, fields, shorten)
  for first = 1, #fields, LIMITS.batch do
    local part = { unpack(fields, first, math.min(first + LIMITS.batch - 1, #fields)) }
    for index, packed in ipairs(call('HMGET', hash, unpack(part))) do
      if packed then
        flat[#flat + 1] = part[index]
        flat[#flat + 1] = shorten(packed)
      end
    end
  end
  return flat
end

local function waiting_of(named)
  local flat = {}
  for _, key in ipairs({ named.r, named.l }) do
    add(flat, named.b, call('ZRANGE', key, 0, -1), function(packed)
      return shortened(packed, 1)
    end)
  end
  return flat
end

local function active_of(named)
  local flat, ids = {}, call('ZRANGE', named.x, 0, -1)
  local bodies, deliveries = waiting.get_all(named.b, ids), waiting.get_all(named.a, ids)
  for index, id in ipairs(ids) do
    if bodies[index] and deliveries[index] then
      local n = #flat
      flat[n + 1], flat[n + 2], flat[n + 3] = id, shortened(bodies[index], 1), deliveries[index]
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
  local named = s.names
  return {
    {
      body.text(now),
      body.text(s.head.epoch),
      body.text(s.head.seq),
      call('HGET', named.m, 'cfg'),
      waiting_of(named),
      active_of(named),
      add({}, named.t, call('HKEYS', named.t), blocked_job),
      add({}, named.o, call('HKEYS', named.o), without_result),
      add({}, named.d, call('HKEYS', named.d), dead_letter),
    },
  }
end
