-- A page of items, in the order of a feed.
--
-- uses     shard, feed, items
-- keys     the `m` key of a feed
-- args     now_ms or '', limit, rank before the page, id of the last item of the page before or ''
-- answers  nil when the feed does not exist, else birth, epoch and seq of its last change, 1 when there are more, id
--          and packed item of each in turn, until the limit or 4 MiB is reached
-- flags    no-writes
local function run(keys, args)
  local f = feed.find(keys[1], shard.now(args[1]))
  if not f then
    return false
  end
  local start, expired_at = args[3], items.expired_at(f)
  -- Items of a sorted feed may have got new ranks: continue from where the last item is now.
  local last = f.cfg.type == 'sorted' and args[4] ~= '' and call('HGET', f.items_key, args[4])
  if last then
    start = items.rank_of(last)
  end
  local ids, rows, n, is_more
  repeat
    ids, rows, n, is_more = items.read_page(f, start, tonumber(args[2]), LIMITS.changes_page_bytes)
    start = n > 0 and items.rank_of(rows[n])
    -- Expired items are at the front of their feed.
  until n == 0 or items.at_of(rows[n]) > expired_at
  local flat = {}
  for index = 1, n do
    if items.at_of(rows[index]) > expired_at then
      flat[#flat + 1] = ids[index]
      flat[#flat + 1] = rows[index]
    end
  end
  local birth, epoch, seq = feed.log_position(f)
  return { birth, epoch, seq, is_more and 1 or 0, flat }
end
