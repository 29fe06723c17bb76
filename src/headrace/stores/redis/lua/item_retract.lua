-- Retract items of a feed in the given order.
--
-- uses     shard, feed, items
-- keys     the `m` key of a feed
-- args     now_ms or '', instance, ids
-- answers  a character for each: '1' retracted, '0' not found. Refuses `unknown_feed`
-- flags    allow-oom
local function run(keys, args)
  local f = feed.open(keys[1], shard.now(args[1]))
  if not f then
    return feed.unknown_feed()
  end
  feed.begin_change(f, args[2])
  local ids, statuses, is_logged = slice(args, 3, #args), {}, f.cfg.type ~= 'queue'
  items.load(f, ids)
  for index, id in ipairs(ids) do
    local packed = f.rows[id]
    statuses[index] = packed and '1' or '0'
    if packed then
      items.drop(f, id, packed)
      f.counters.items = f.counters.items - 1
      if is_logged then
        feed.note_change(f, 'r', '-', id)
      else
        feed.touch(f)
      end
    end
  end
  local is_news = feed.write_changes(f)
  items.write(f)
  feed.save(f)
  if is_news then
    feed.notify_readers(f)
  end
  return concat(statuses)
end
