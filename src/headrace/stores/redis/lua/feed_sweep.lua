-- Evict items and drop changes beyond the bounds of a feed; a directory that holds nothing is forgotten.
--
-- keys     the `m` key of a feed
-- args     now_ms or '', instance, 1 for a directory, or 0
-- answers  how many went
-- flags    allow-oom
local function run(keys, args)
  local f, is_directory = feed.open(keys[1], shard.now(args[1])), args[3] == '1'
  if not f then
    return 0
  end
  feed.start(f, args[2])
  local swept, first = 0, f.head.first
  if f.cfg.type == 'feed' and not is_directory then
    swept = items.evict(f)
  end
  feed.close(f)
  feed.trim(f)
  swept = swept + f.head.first - first
  items.write(f)
  if is_directory and f.head.items == 0 and f.head.first > f.head.seq then
    feed.drop(f)
  else
    feed.save(f)
  end
  if swept > 0 then
    feed.tell(f)
  end
  return swept
end
