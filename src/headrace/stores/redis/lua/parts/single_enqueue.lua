-- A lone new job, as nearly every call of a single enqueue has one: what enqueue.lua does for any batch, without the tables
-- that a batch needs. On a server that was idle, that is 59 instead of 99 us. Whatever is unusual is left to enqueue.lua.

local lone = {}

local LONE_TIER = 2 ^ 48

-- Enqueue the job with this id: what enqueue.lua is told of all jobs of the call, the head of its body without the first two
-- times, the tail of it, and the job as the journal keeps it. Nothing is written, and false returned, unless the shard is
-- there, as the caller cut it, known to this server, not full, without the job or a finished job of it, and with no need to look
-- at payloads or to trim its journal.
function lone.enqueue(key, given, shards, said, id, start, tail, packed)
  local now, named = shard.now(given), keyed.of(key)
  local found = call('HMGET', key, 'about', 'head')
  local about = found[1] and about_of(key, found[1])
  if not about or about.shards ~= shards or about.vm ~= shard.server() then
    return false
  end
  local cfg = about.cfg
  local epoch, seq, at, fence, number, dead_letter, first, bytes, oldest, en, done, cancelled, freed, blocked, over_at =
    cut(PACKED, found[2])
  if cfg.journal_payloads or call('HEXISTS', named.b, id) == 1
    or (done + cancelled > 0 and call('HEXISTS', named.o, id) == 1) then
    return false
  end
  local ready = call('ZCARD', named.r)
  if ready + call('ZCARD', named.l) + blocked >= cfg.waiting_max then
    return false
  end
  local text, priority = body.text, byte(start, 11)
  priority = priority == 255 and cfg.priority or priority
  local due = text(now)
  local size = cut('>I4', said, 7) + #due
  at = now > at and now or at
  oldest = first == seq + 1 and at or oldest
  seq, bytes, number = seq + 1, bytes + size, number + 1
  if journal.is_over(cfg, bytes, seq - first, oldest, now) then
    return false
  end
  call('XADD', named.j, text(seq) .. '-0', 'h', text(epoch) .. ' 1 ' .. text(at) .. ' ',
    'n', text(size) .. ' ' .. due .. ' ' .. cfg.priority, 'e', packed)
  call('HSET', named.b, id, pack('>I6I6', now, now) .. start .. tail)
  call('ZADD', named.r, text((9 - priority) * LONE_TIER + number), id)
  if ready == 0 then
    telling.publish(named.prefix, '')
  end
  call('HSET', key, 'head', pack(PACKED, epoch, seq, at, fence, number, dead_letter, first, bytes, oldest, en, done, cancelled,
    freed, blocked, over_at))
  return true
end
