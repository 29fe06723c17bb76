-- What a feed is and how it stands.
--
-- keys     the `m` key of a feed
-- args     none
-- answers  nil when it is not there, else configuration (JSON), birth, epoch and seq of the last change, items, total,
--          first seq, bytes of the log, created_at_ms, changed_at_ms
-- flags    allow-oom
local function run(keys)
  local f = feed.look(keys[1])
  return f
    and call('HMGET', f.m, 'cfg', 'birth', 'seq_epoch', 'seq', 'items', 'total', 'first', 'bytes', 'created', 'at')
end
