-- Take the first items out of an item queue.
--
-- uses     feed, items
-- keys     the `m` key of a feed
-- args     limit
-- answers  id and packed item of each in turn, until the limit or 4 MiB is reached. Refuses `unknown_feed`,
--          `wrong_type`
-- flags    allow-oom
local function run(keys, args)
  local f = feed.open(keys[1])
  if not f then
    return feed.unknown_feed()
  elseif f.cfg.type ~= 'queue' then
    return feed.wrong_type(f)
  end
  local flat = {}
  if f.counters.items > 0 then
    local ids, rows, n = items.read_page(f, '', tonumber(args[1]), LIMITS.changes_page_bytes)
    for index = 1, n do
      flat[2 * index - 1], flat[2 * index] = ids[index], rows[index]
      items.drop(f, ids[index], rows[index])
    end
    for _, member in ipairs(f.lost_members) do
      f.order[member] = false -- or nobody would ever get past it
    end
    f.counters.items = f.counters.items - n - #f.lost_members
    items.write(f)
  end
  feed.save(f)
  return flat
end
