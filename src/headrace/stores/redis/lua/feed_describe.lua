-- The configuration and the counters of a feed.
--
-- uses     numbers, feed
-- keys     the `m` key of a feed
-- args     none
-- answers  nil when the feed does not exist, else configuration (JSON), birth, epoch and seq of the last change, items,
--          total, first seq, bytes of the log, created_at_ms, changed_at_ms
-- flags    allow-oom
local function run(keys)
  local f = feed.open_to_read(keys[1])
  if not f then
    return false
  end
  local counters = f.counters
  local answer = { f.config_text, f.birth }
  for _, number in ipairs({
    counters.seq_epoch, counters.seq, counters.items, counters.total, counters.first, counters.bytes, counters.created,
    counters.at,
  }) do
    answer[#answer + 1] = numbers.text(number)
  end
  return answer
end
