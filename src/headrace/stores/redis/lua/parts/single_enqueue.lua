-- Single enqueue: a short way for one new job, without the tables that enqueue.lua needs for batches: 59 instead of 99
-- us on an idle server. Everything unusual is left to enqueue.lua.
--
-- uses  key_names, numbers, journal, shard, notify

local single_enqueue = {}

local PACKED = shard.PACKED

-- Enqueue one job. Takes from the arguments of enqueue.lua: `summary` of all jobs of the call, id, `start` and `tail`
-- of the body, and the packed line. Returns false and writes nothing unless the shard exists with this number of
-- shards, was last written by this server, is not full, knows no job or finished job of the id, and need not check
-- payloads or trim its journal.
function single_enqueue.enqueue(key, now_ms, shards, summary, id, start, tail, packed_line)
  local now, names = shard.now(now_ms), key_names.of(key)
  local found = call('HMGET', key, 'about', 'head')
  local about = found[1] and shard.read_about(key, found[1])
  if not about or about.shards ~= shards or about.server_id ~= shard.server_id() then
    return false
  end
  local cfg = about.cfg
  local epoch, seq, at, fence, number, dead_letter, first, bytes, oldest, finished_number, done, cancelled, freed,
    blocked, over_at = struct_unpack(PACKED, found[2])
  if cfg.journal_payloads or call('HEXISTS', names.bodies, id) == 1
    or (done + cancelled > 0 and call('HEXISTS', names.finished, id) == 1) then
    return false
  end
  local ready = call('ZCARD', names.ready)
  if ready + call('ZCARD', names.later) + blocked >= cfg.waiting_max then
    return false
  end
  local text, priority = numbers.text, byte(start, 11)
  priority = priority == 255 and cfg.priority or priority
  local due = text(now)
  local size = struct_unpack('>I4', summary, 7) + #due
  at = now > at and now or at
  oldest = first == seq + 1 and at or oldest
  seq, bytes, number = seq + 1, bytes + size, number + 1
  if journal.exceeds_retention(cfg, bytes, seq - first, oldest, now) then
    return false
  end
  call('XADD', names.journal, text(seq) .. '-0', 'h', text(epoch) .. ' 1 ' .. text(at) .. ' ',
    'n', text(size) .. ' ' .. due .. ' ' .. cfg.priority, 'e', packed_line)
  call('HSET', names.bodies, id, struct_pack('>I6I6', now, now) .. start .. tail)
  call('ZADD', names.ready, text((PRIORITY_MAX - priority) * TIER + number), id)
  if ready == 0 then
    notify.publish(names.channel, '')
  end
  call('HSET', key, 'head', struct_pack(PACKED, epoch, seq, at, fence, number, dead_letter, first, bytes, oldest,
    finished_number, done, cancelled, freed, blocked, over_at))
  return true
end

return single_enqueue
