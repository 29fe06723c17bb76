-- Delete a feed with all its items and changes; the log of its tenant's directory records the deletion.
--
-- uses     shard, feed, directory
-- keys     the `m` keys of the feed and of its tenant's directory
-- args     now_ms or '', instance, name, configuration of a new directory (JSON)
-- answers  nothing; refuses `unknown_feed`
-- flags    allow-oom
local function run(keys, args)
  local now = shard.now(args[1])
  local f = feed.find(keys[1], now)
  if not f then
    return feed.unknown_feed()
  end
  directory.record(directory.open(keys[2], args[4], args[2], now), 'd', args[3])
  feed.delete(f)
  feed.notify_readers(f)
end
