-- A lone new job, as nearly every call of a single enqueue has one: what enqueue.lua does for any batch, without the tables
-- that a batch needs. On a server that was idle, that is 59 instead of 99 us. Whatever is unusual is left to enqueue.lua.

local lone = {}

local LONE_TIER = 2 ^ 48

-- Enqueue the job with this id, body without its first two times, and members of its line; nothing is written, and false
-- returned, unless the shard is there, as the caller cut it, known to this server, not full, without the job or an ending
-- of it, and with no need to look at payloads or to trim its journal.
function lone.enqueue(key, given, shards, id, rest, said)
  local now, named = shard.now(given), keyed.of(key)
  local found = call('HMGET', key, 'about', 'head')
  local about = found[1] and about_of(key, found[1])
  if not about or about.shards ~= shards or about.vm ~= shard.server() then
    return false
  end
  local cfg = about.cfg
  local epoch, seq, at, fence, number, letter, first, bytes, oldest, en, done, cancelled, freed, blocked, over_at =
    cut(PACKED, found[2])
  if cfg.journal_payloads or call('HEXISTS', named.b, id) == 1
    or (done + cancelled > 0 and call('HEXISTS', named.o, id) == 1) then
    return false
  end
  local ready = call('ZCARD', named.r)
  if ready + call('ZCARD', named.l) + blocked >= cfg.waiting_max then
    return false
  end
  local text, priority = body.text, byte(rest, 11)
  priority = priority == 255 and cfg.priority or priority
  local line = '{"event":"enqueued",' .. said .. ',"priority":' .. priority .. ',"run_at_ms":' .. text(now) .. '}\n'
  at = now > at and now or at
  oldest = first == seq + 1 and at or oldest
  seq, bytes, number = seq + 1, bytes + #line, number + 1
  if journal.is_over(cfg, bytes, seq - first, oldest, now) then
    return false
  end
  call('XADD', named.j, text(seq) .. '-0', 'h', text(epoch) .. ' 1 ' .. text(at) .. ' ', 'l', line)
  call('HSET', named.b, id, pack('>I6I6', now, now) .. rest)
  call('ZADD', named.r, text((9 - priority) * LONE_TIER + number), id)
  if ready == 0 then
    telling.publish(named.prefix, '')
  end
  call('HSET', key, 'head', pack(PACKED, epoch, seq, at, fence, number, letter, first, bytes, oldest, en, done, cancelled,
    freed, blocked, over_at))
  return true
end
