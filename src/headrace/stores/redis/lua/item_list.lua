-- Items in the order of a feed.
--
-- keys     the `m` key of a feed
-- args     now_ms or '', limit, rank behind which the list goes on, id of the item shown last or ''
-- answers  nil when the feed is not there, else birth, epoch and seq of its last change, whether there are more, id and
--          packed item of each in turn, until the limit or 4 MiB is reached
-- flags    no-writes
local function run(keys, args)
  local f = feed.find(keys[1], shard.now(args[1]))
  if not f then
    return false
  end
  local start, over = args[3], items.over(f)
  -- Ranks of a sorted feed may have been drawn anew: go on from where the last item stands by now.
  local last = f.cfg.type == 'sorted' and args[4] ~= '' and call('HGET', f.i, args[4])
  if last then
    start = items.rank_of(last)
  end
  local ids, rows, n, is_more
  repeat
    ids, rows, n, is_more = items.page(f, start, tonumber(args[2]), LIMITS.page_bytes)
    start = n > 0 and items.rank_of(rows[n])
    -- Those that are over stand at the front of their feed.
  until n == 0 or items.at_of(rows[n]) > over
  local flat = {}
  for index = 1, n do
    if items.at_of(rows[index]) > over then
      flat[#flat + 1] = ids[index]
      flat[#flat + 1] = rows[index]
    end
  end
  local birth, epoch, seq = feed.place(f)
  return { birth, epoch, seq, is_more and 1 or 0, flat }
end
