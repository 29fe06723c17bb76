-- Make a feed, and its tenant's directory if this is the first.
--
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
  directory.list(d, 'c', args[3], args[4])
  local at = d.head.at
  local f = feed.new(keys[1], args[4], body.text(at) .. '.' .. body.text(d.head.seq), at)
  feed.start(f, args[2])
  feed.note(f, 'c', '-', '', args[4])
  feed.close(f)
  feed.save(f)
  feed.tell(f)
end
