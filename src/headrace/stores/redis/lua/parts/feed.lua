-- Feed: the state `f` of one feed in one call: its counters and configuration as they are read at the start, its log,
-- and all that the call decides.
--
-- uses  numbers, shard, notify
--
-- A change is an entry of the log `l` under its seq: h, its head; i, the id; d, the item. The head is packed: event 1 ·
-- mark 1 (the position of an item, the reason of an eviction) · epoch 6 · at_ms 6 · written 6 · size of the instance 2
-- · instance · id of the neighbour. `written` counts the bytes of all changes so far, so that dropping many needs no
-- sum.

local feed = {}

-- The counters are packed into one field, since a call reads and writes most of them: epoch, seq, seq_epoch, at, first,
-- oldest, bytes, written, items, total, created.
local PACKED = '>I7I7I7I7I7I7I7I7I7I7I7'

local function new_state(key, config_text, now)
  local prefix = sub(key, 1, -2)
  return {
    key = key,
    items_key = prefix .. 'i',
    ranks_key = prefix .. 'o',
    log_key = prefix .. 'l',
    channel = prefix,
    cfg = shard.parse_config(config_text),
    now = now,
    counters = {},
    change_count = 0,
    change_heads = {}, change_ids = {}, change_items = {}, -- of the changes of this call
    rows = {}, dirty = {}, order = {}, -- see items.lua
    below = {}, above = {}, -- see feed_position.lua
  }
end

-- The state of a feed; nil when the feed does not exist.
function feed.find(key, now)
  load_globals()
  local found = call('HMGET', key, 'cfg', 'vm', 'birth', 'number', 'head', 'layout')
  if not found[1] then
    return nil
  end
  shard.check_layout(found[6])
  local f = new_state(key, found[1], now)
  f.config_text, f.server_id, f.birth, f.number, f.old_number = found[1], found[2], found[3], found[4], found[4]
  f.packed_counters = found[5]
  local counters = f.counters
  counters.epoch, counters.seq, counters.seq_epoch, counters.at, counters.first, counters.oldest, counters.bytes,
    counters.written, counters.items, counters.total, counters.created = struct_unpack(PACKED, found[5])
  return f
end

-- The same for calls that write: raises the epoch when another server has taken over or the server was restarted.
function feed.open(key, now)
  local f = feed.find(key, now)
  if f and f.server_id ~= shard.server_id() then
    f.counters.epoch, f.has_new_server = shard.next_epoch(f.counters.epoch), true
  end
  return f
end

-- The same for calls that only read.
function feed.open_to_read(key)
  local f = feed.open(key)
  if f and f.has_new_server then
    feed.save(f)
  end
  return f
end

-- The state of a new feed; nothing is written before feed.save.
function feed.new(key, config_text, birth, now)
  load_globals()
  local f = new_state(key, config_text, now)
  f.counters = {
    epoch = 1, seq = 0, seq_epoch = 1, at = 0, first = 1, oldest = 0, bytes = 0, written = 0,
    items = 0, total = 0, created = now,
  }
  f.birth, f.number, f.new_config, f.has_new_server = birth, '0', config_text, true
  return f
end

-- Give a feed another configuration; nothing is written before feed.save.
function feed.configure(f, config_text)
  f.cfg, f.new_config = shard.parse_config(config_text), config_text
end

function feed.unknown_feed()
  return redis.error_reply('HEADRACE unknown_feed')
end

function feed.wrong_type(f)
  return redis.error_reply('HEADRACE wrong_type ' .. f.cfg.type)
end

-- Begin a call that may change something; the instants of changes never go back.
function feed.begin_change(f, instance)
  f.at = math.max(f.counters.at, f.now)
  f.at_packed = struct_pack('>I6', f.at)
  f.stamp, f.instance_packed = struct_pack('>I6I6', f.counters.epoch, f.at), struct_pack('>I2', #instance) .. instance
end

-- Note the instant of a change, also of one without an entry in the log; a call that changes nothing leaves no trace.
function feed.touch(f)
  f.counters.at = f.at
end

-- Add a change to the log; `mark` is '-' where it means nothing.
function feed.note_change(f, event, mark, id, item, neighbour)
  local n = f.change_count + 1
  local counters, item = f.counters, item or ''
  counters.written, counters.bytes = counters.written + #id + #item, counters.bytes + #id + #item
  f.change_heads[n] = event
    .. mark
    .. f.stamp
    .. struct_pack('>I6', counters.written)
    .. f.instance_packed
    .. (neighbour or '')
  f.change_ids[n], f.change_items[n] = id, item
  f.change_count, counters.at = n, f.at
end

local function change_of(entry)
  local values = entry[2]
  return tonumber(string.match(entry[1], '^%d+')), struct_unpack('>I6', values[2], 9), #values[4] + #values[6]
end

-- Iterates over the changes from `seq` on, some at a time: seq, at_ms and size; nil at the end.
local function changes_from(f, seq)
  local entries, index, start, size, is_end = {}, 0, numbers.text(seq), 2, false
  return function()
    index = index + 1
    if not entries[index] and not is_end then
      size = math.min(size * 2, 64)
      entries, index = call('XRANGE', f.log_key, start, '+', 'COUNT', size), 1
      is_end = #entries < size
      start = #entries > 0 and '(' .. entries[#entries][1]
    end
    if entries[index] then
      return change_of(entries[index])
    end
  end
end

-- Drop the oldest changes beyond the retention, a bounded number; returns how many.
function feed.trim(f)
  local counters, cfg = f.counters, f.cfg
  local surplus = counters.seq - counters.first + 1 - cfg.changes_keep_max
  if surplus <= floor(cfg.changes_keep_max / LIMITS.changes_slack) then
    surplus = 0
  end
  local expired_at = f.at - cfg.changes_keep_ms
  local is_aged = counters.first <= counters.seq and counters.oldest <= expired_at
  if surplus <= 0 and counters.bytes <= cfg.changes_bytes_max and not is_aged then
    return 0
  end
  local dropped = math.min(surplus, LIMITS.changes_trim_per_call_max)
  local first = counters.first + dropped
  if dropped > 0 then
    local last = call('XRANGE', f.log_key, numbers.text(first - 1), '+', 'COUNT', 1)[1]
    counters.bytes = counters.written - struct_unpack('>I6', last[2][2], 15)
  end
  local next = changes_from(f, first)
  local seq, at, size = next()
  local drops_max, bytes_max = LIMITS.changes_trim_per_call_max, cfg.changes_bytes_max
  while seq and dropped < drops_max and (counters.bytes > bytes_max or at <= expired_at) do
    first, dropped, counters.bytes = seq + 1, dropped + 1, counters.bytes - size
    seq, at, size = next()
  end
  counters.oldest = seq and at or 0
  if dropped > 0 then
    counters.first = first
    call('XTRIM', f.log_key, 'MINID', numbers.text(first))
  end
  return dropped
end

-- Write the changes of this call and drop old ones beyond the retention; whether there were changes.
function feed.write_changes(f)
  local counters, count = f.counters, f.change_count
  if count == 0 then
    return false
  end
  if counters.first == counters.seq + 1 then
    counters.oldest = f.at
  end
  for n = 1, count do
    local head, id, item = f.change_heads[n], f.change_ids[n], f.change_items[n]
    call('XADD', f.log_key, numbers.text(counters.seq + n) .. '-0', 'h', head, 'i', id, 'd', item)
  end
  counters.seq, counters.seq_epoch = counters.seq + count, counters.epoch
  f.change_count = 0
  feed.trim(f)
  return true
end

-- Write the counters and fields of the feed that have changed.
function feed.save(f)
  local counters, changed, n = f.counters, {}, 0
  local function add(name, value)
    changed[n + 1], changed[n + 2] = name, value
    n = n + 2
  end
  local packed = struct_pack(PACKED, counters.epoch, counters.seq, counters.seq_epoch, counters.at, counters.first,
    counters.oldest, counters.bytes, counters.written, counters.items, counters.total, counters.created)
  if packed ~= f.packed_counters then
    add('head', packed)
  end
  if f.number ~= f.old_number then
    add('number', f.number)
  end
  if f.has_new_server then
    add('vm', shard.server_id())
  end
  if f.new_config then
    add('layout', LAYOUT)
    add('birth', f.birth)
    add('cfg', f.new_config)
  end
  if n > 0 then
    call('HSET', f.key, unpack(changed, 1, n))
  end
end

function feed.notify_readers(f)
  notify.publish(f.channel, '')
end

-- The position of the feed in its log: birth, epoch and seq.
function feed.log_position(f)
  return f.birth, numbers.text(f.counters.seq_epoch), numbers.text(f.counters.seq)
end

function feed.delete(f)
  call('UNLINK', f.key, f.items_key, f.ranks_key, f.log_key)
end

return feed
