-- Every record of a shard at one instant of its journal, which only one call can show. Of a body it sends the head.
--
-- uses     numbers, job_codec, chunked, shard, finished_jobs, blocked_jobs
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or ''; then 0
-- answers  nil when the shard does not exist, else now_ms, epoch, seq, configuration; waiting jobs as id and body,
--          active ones as id, body and delivery, blocked jobs, finished jobs and dead letters as name and value in turn
-- flags    allow-oom
local NO_TAIL = '\0\0\0\0\0\0'

-- A packed record whose body starts at a position, without the payload.
local function shortened(packed, at)
  return sub(packed, 1, at - 1) .. job_codec.head(sub(packed, at)) .. NO_TAIL
end

local function blocked_job(packed)
  return shortened(packed, blocked_jobs.BODY_AT)
end

local function without_result(packed)
  local at = finished_jobs.HEAD_AT
  return sub(packed, 1, at - 1) .. job_codec.head(sub(packed, at))
end

local function dead_letter(packed)
  local id_size, class_size, message_size = struct_unpack('>I2I2I2', packed, 14)
  return shortened(packed, 20 + id_size + class_size + message_size)
end

-- Add names and shortened values of a hash in turn.
local function add(flat, hash, fields, shorten)
  for first = 1, #fields, LIMITS.batch_max do
    local part = { unpack(fields, first, math.min(first + LIMITS.batch_max - 1, #fields)) }
    for index, packed in ipairs(call('HMGET', hash, unpack(part))) do
      if packed then
        flat[#flat + 1] = part[index]
        flat[#flat + 1] = shorten(packed)
      end
    end
  end
  return flat
end

local function waiting_of(names)
  local flat = {}
  for _, key in ipairs({ names.ready, names.later }) do
    add(flat, names.bodies, call('ZRANGE', key, 0, -1), function(packed)
      return shortened(packed, 1)
    end)
  end
  return flat
end

local function active_of(names)
  local flat, ids = {}, call('ZRANGE', names.leases, 0, -1)
  local bodies, deliveries = chunked.get_values(names.bodies, ids), chunked.get_values(names.deliveries, ids)
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
  local found, refusal = shard.open(keys, args[1], now)
  if refusal then
    return refusal
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local names = s.names
  return {
    {
      numbers.text(now),
      numbers.text(s.counters.epoch),
      numbers.text(s.counters.seq),
      call('HGET', names.meta, 'cfg'),
      waiting_of(names),
      active_of(names),
      add({}, names.blocked, call('HKEYS', names.blocked), blocked_job),
      add({}, names.finished, call('HKEYS', names.finished), without_result),
      add({}, names.dead_letters, call('HKEYS', names.dead_letters), dead_letter),
    },
  }
end
