-- Give a feed another configuration.
--
-- uses     shard, feed, directory
-- keys     the `m` keys of the feed and of its tenant's directory
-- args     now_ms or '', instance, name, new configuration (JSON), configuration of a new directory (JSON),
--          configuration that the feed must have (JSON)
-- answers  1, or 0 when the feed has another configuration; refuses `unknown_feed`
-- flags    allow-oom
local function run(keys, args)
  local now = shard.now(args[1])
  local f = feed.open(keys[1], now)
  if not f then
    return feed.unknown_feed()
  end
  if f.config_text ~= args[6] then
    return 0
  end
  directory.record(directory.open(keys[2], args[5], args[2], now), 'g', args[3], args[4])
  feed.configure(f, args[4])
  feed.begin_change(f, args[2])
  feed.note_change(f, 'g', '-', '', args[4])
  feed.write_changes(f)
  feed.save(f)
  feed.notify_readers(f)
  return 1
end
