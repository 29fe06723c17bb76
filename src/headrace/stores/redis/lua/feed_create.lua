-- Create a feed, and its tenant's directory with the first feed.
--
-- uses     numbers, shard, feed, items, directory
-- keys     the `m` keys of the feed and of its tenant's directory
-- args     now_ms or '', instance, name, configuration (JSON), configuration of a new directory (JSON)
-- answers  nothing; refuses `feed_exists`
-- flags
local function run(keys, args)
  local now = shard.now(args[1])
  local d = directory.open(keys[2], args[5], args[2], now)
  if call('EXISTS', keys[1]) == 1 or items.row(d, args[3]) then
    return redis.error_reply('HEADRACE feed_exists')
  end
  directory.record(d, 'c', args[3], args[4])
  local at = d.counters.at
  local f = feed.new(keys[1], args[4], numbers.text(at) .. '.' .. numbers.text(d.counters.seq), at)
  feed.begin_change(f, args[2])
  feed.note_change(f, 'c', '-', '', args[4])
  feed.write_changes(f)
  feed.save(f)
  feed.notify_readers(f)
end
