-- A feed in one call: its counters and configuration as they are read at its start and saved at its end, and its log.
--
-- A change is an entry of the stream `l` under its seq: h, its head; i, the id; d, the item. The head is packed: event 1 ·
-- mark 1 (where it was put, why it was evicted) · epoch 6 · at_ms 6 · written 6 · size of the instance 2 · instance · id of
-- the neighbour. `written` counts the bytes of all changes up to this one: who drops many need not look at each.

local feed = {}

do
  -- The counters are packed into one field, since a call reads and writes most of them: epoch, seq, seq_epoch, at, first,
  -- oldest, bytes, written, items, total, created.
  local PACKED = '>I7I7I7I7I7I7I7I7I7I7I7'

  local function step_of(key, config_text, now)
    local prefix = sub(key, 1, -2)
    return {
      m = key,
      i = prefix .. 'i',
      o = prefix .. 'o',
      l = prefix .. 'l',
      channel = prefix,
      cfg = shard.config_of(config_text),
      now = now,
      head = {},
      count = 0,
      heads = {}, ids = {}, items = {}, -- of the changes that were noted
      rows = {}, dirty = {}, order = {}, -- what items.lua knows and what becomes of it
      below = {}, above = {}, -- neighbours that feed_position.lua knows, by rank
    }
  end

  -- A feed as it is; nil when it is not there.
  function feed.find(key, now)
    begin()
    local found = call('HMGET', key, 'cfg', 'vm', 'birth', 'number', 'head', 'layout')
    if not found[1] then
      return nil
    end
    shard.check_layout(found[6])
    local f = step_of(key, found[1], now)
    f.config_text, f.vm, f.birth, f.number, f.old_number = found[1], found[2], found[3], found[4], found[4]
    f.old_head = found[5]
    local head = f.head
    head.epoch, head.seq, head.seq_epoch, head.at, head.first, head.oldest, head.bytes, head.written, head.items,
      head.total, head.created = cut(PACKED, found[5])
    return f
  end

  -- The same for those who write: notices that the server is another one than the last time, or was started again.
  function feed.open(key, now)
    local f = feed.find(key, now)
    if f and f.vm ~= shard.server() then
      f.head.epoch, f.is_moved = shard.next_epoch(f.head.epoch), true
    end
    return f
  end

  -- The same for those who look.
  function feed.look(key)
    local f = feed.open(key)
    if f and f.is_moved then
      feed.save(f)
    end
    return f
  end

  -- A feed that is not there yet; nothing is written before it is saved.
  function feed.new(key, config_text, birth, now)
    begin()
    local f = step_of(key, config_text, now)
    f.head = {
      epoch = 1, seq = 0, seq_epoch = 1, at = 0, first = 1, oldest = 0, bytes = 0, written = 0,
      items = 0, total = 0, created = now,
    }
    f.birth, f.number, f.new_config, f.is_moved = birth, '0', config_text, true
    return f
  end

  -- Give a feed another configuration; nothing is written before it is saved.
  function feed.configure(f, config_text)
    f.cfg, f.new_config = shard.config_of(config_text), config_text
  end

  function feed.unknown()
    return redis.error_reply('HEADRACE unknown_feed')
  end

  function feed.wrong_type(f)
    return redis.error_reply('HEADRACE wrong_type ' .. f.cfg.type)
  end

  -- Begin a call that may change something: the instant of what it writes never goes back.
  function feed.start(f, instance)
    f.at = math.max(f.head.at, f.now)
    f.at_packed = pack('>I6', f.at)
    f.stamp, f.maker = pack('>I6I6', f.head.epoch, f.at), pack('>I2', #instance) .. instance
  end

  -- Something changes now, whether it is noted or not; a call that changes nothing leaves no trace.
  function feed.touch(f)
    f.head.at = f.at
  end

  -- Note a change; `mark` is '-' where there is nothing to say.
  function feed.note(f, event, mark, id, item, neighbour)
    local n = f.count + 1
    local head, item = f.head, item or ''
    head.written, head.bytes = head.written + #id + #item, head.bytes + #id + #item
    f.heads[n] = event .. mark .. f.stamp .. pack('>I6', head.written) .. f.maker .. (neighbour or '')
    f.ids[n], f.items[n] = id, item
    f.count, head.at = n, f.at
  end

  local function change_of(entry)
    local values = entry[2]
    return tonumber(string.match(entry[1], '^%d+')), cut('>I6', values[2], 9), #values[4] + #values[6]
  end

  -- The changes from one on, some at a time: seq, at_ms and size of the next one; nil at the end.
  local function changes_from(f, seq)
    local entries, index, start, size, is_end = {}, 0, body.text(seq), 2, false
    return function()
      index = index + 1
      if not entries[index] and not is_end then
        size = math.min(size * 2, 64)
        entries, index = call('XRANGE', f.l, start, '+', 'COUNT', size), 1
        is_end = #entries < size
        start = #entries > 0 and '(' .. entries[#entries][1]
      end
      if entries[index] then
        return change_of(entries[index])
      end
    end
  end

  -- Drop changes beyond the retention from the front of the log, a bounded number; says how many.
  function feed.trim(f)
    local head, cfg = f.head, f.cfg
    local surplus = head.seq - head.first + 1 - cfg.changes_keep_max
    if surplus <= floor(cfg.changes_keep_max / LIMITS.changes_slack) then
      surplus = 0
    end
    local over = f.at - cfg.changes_keep_ms
    local is_aged = head.first <= head.seq and head.oldest <= over
    if surplus <= 0 and head.bytes <= cfg.changes_bytes_max and not is_aged then
      return 0
    end
    local dropped = math.min(surplus, LIMITS.changes_trim)
    local first = head.first + dropped
    if dropped > 0 then
      local last = call('XRANGE', f.l, body.text(first - 1), '+', 'COUNT', 1)[1]
      head.bytes = head.written - cut('>I6', last[2][2], 15)
    end
    local next = changes_from(f, first)
    local seq, at, size = next()
    while seq and dropped < LIMITS.changes_trim and (head.bytes > cfg.changes_bytes_max or at <= over) do
      first, dropped, head.bytes = seq + 1, dropped + 1, head.bytes - size
      seq, at, size = next()
    end
    head.oldest = seq and at or 0
    if dropped > 0 then
      head.first = first
      call('XTRIM', f.l, 'MINID', body.text(first))
    end
    return dropped
  end

  -- Write what was noted and drop what is beyond the retention; whether anything was noted.
  function feed.close(f)
    local head, count = f.head, f.count
    if count == 0 then
      return false
    end
    if head.first == head.seq + 1 then
      head.oldest = f.at
    end
    for n = 1, count do
      call('XADD', f.l, body.text(head.seq + n) .. '-0', 'h', f.heads[n], 'i', f.ids[n], 'd', f.items[n])
    end
    head.seq, head.seq_epoch = head.seq + count, head.epoch
    f.count = 0
    feed.trim(f)
    return true
  end

  -- Write what has changed.
  function feed.save(f)
    local head, changed, n = f.head, {}, 0
    local function add(name, value)
      changed[n + 1], changed[n + 2] = name, value
      n = n + 2
    end
    local packed = pack(PACKED, head.epoch, head.seq, head.seq_epoch, head.at, head.first, head.oldest, head.bytes,
      head.written, head.items, head.total, head.created)
    if packed ~= f.old_head then
      add('head', packed)
    end
    if f.number ~= f.old_number then
      add('number', f.number)
    end
    if f.is_moved then
      add('vm', shard.server())
    end
    if f.new_config then
      add('layout', LAYOUT)
      add('birth', f.birth)
      add('cfg', f.new_config)
    end
    if n > 0 then
      call('HSET', f.m, unpack(changed, 1, n))
    end
  end

  function feed.tell(f)
    telling.publish(f.channel, '')
  end

  -- The feed's own place in the log, as every page of it begins.
  function feed.place(f)
    return f.birth, body.text(f.head.seq_epoch), body.text(f.head.seq)
  end

  function feed.drop(f)
    call('UNLINK', f.m, f.i, f.o, f.l)
  end
end
