-- All items at one instant of the log, in the order of the feed.
--
-- uses     shard, feed, items
-- keys     the `m` key of a feed
-- args     now_ms or ''
-- answers  nil when the feed does not exist, else birth, epoch and seq of its last change, the instant at or before
--          which items have expired, id and packed item of each in turn
-- flags    no-writes
local function run(keys, args)
  local f = feed.find(keys[1], shard.now(args[1]))
  if not f then
    return false
  end
  local members, flat = call('ZRANGE', f.ranks_key, 0, -1), {}
  for first = 1, #members, LIMITS.batch_max do
    local last, ids = math.min(first + LIMITS.batch_max - 1, #members), {}
    for index = first, last do
      ids[index - first + 1] = items.id_of(members[index])
    end
    local rows = call('HMGET', f.items_key, unpack(ids))
    for index = 1, #ids do
      if rows[index] then
        flat[#flat + 1] = ids[index]
        flat[#flat + 1] = rows[index]
      end
    end
  end
  local birth, epoch, seq = feed.log_position(f)
  return { birth, epoch, seq, format('%.0f', items.expired_at(f)), flat }
end
