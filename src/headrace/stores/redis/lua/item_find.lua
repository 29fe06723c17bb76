-- Items by id.
--
-- uses     shard, feed, items
-- keys     the `m` key of a feed
-- args     now_ms or '', ids
-- answers  nil when the feed does not exist, else the instant at or before which items have expired, and of each the
--          packed item or nil
-- flags    no-writes
local function run(keys, args)
  local f = feed.find(keys[1], shard.now(args[1]))
  if not f then
    return false
  end
  local ids, answers = slice(args, 2, #args), { format('%.0f', items.expired_at(f)) }
  items.load(f, ids)
  for index, id in ipairs(ids) do
    answers[index + 1] = f.rows[id]
  end
  return answers
end
