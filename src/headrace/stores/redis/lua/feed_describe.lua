-- What a feed is and how it stands.
--
-- keys     the `m` key of a feed
-- args     none
-- answers  nil when it is not there, else configuration (JSON), birth, epoch and seq of the last change, items, total,
--          first seq, bytes of the log, created_at_ms, changed_at_ms
-- flags    allow-oom
local function run(keys)
  local f = feed.look(keys[1])
  if not f then
    return false
  end
  local head = f.head
  local answer = { f.config_text, f.birth }
  for _, number in ipairs({
    head.seq_epoch, head.seq, head.items, head.total, head.first, head.bytes, head.created, head.at,
  }) do
    answer[#answer + 1] = body.text(number)
  end
  return answer
end
