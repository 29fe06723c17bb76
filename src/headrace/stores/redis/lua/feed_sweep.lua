-- Evict items and drop changes beyond the bounds of a feed; an empty directory is deleted.
--
-- uses     shard, feed, items
-- keys     the `m` key of a feed
-- args     now_ms or '', instance, 1 for a directory, or 0
-- answers  how many items and changes were dropped
-- flags    allow-oom
local function run(keys, args)
  local f, is_directory = feed.open(keys[1], shard.now(args[1])), args[3] == '1'
  if not f then
    return 0
  end
  feed.begin_change(f, args[2])
  local swept, first = 0, f.counters.first
  if f.cfg.type == 'feed' and not is_directory then
    swept = items.evict(f)
  end
  feed.write_changes(f)
  feed.trim(f)
  swept = swept + f.counters.first - first
  items.write(f)
  if is_directory and f.counters.items == 0 and f.counters.first > f.counters.seq then
    feed.delete(f)
  else
    feed.save(f)
  end
  if swept > 0 then
    feed.notify_readers(f)
  end
  return swept
end
