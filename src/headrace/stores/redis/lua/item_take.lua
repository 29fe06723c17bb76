-- Take the first items out of a plain queue.
--
-- keys     the `m` key of a feed
-- args     limit
-- answers  id and packed item of each in turn, until the limit or 4 MiB is reached. Refuses `unknown_feed`, `wrong_type`
-- flags    allow-oom
local function run(keys, args)
  local f = feed.open(keys[1])
  if not f then
    return feed.unknown()
  elseif f.cfg.type ~= 'plain' then
    return feed.wrong_type(f)
  end
  local flat = {}
  if f.head.items > 0 then
    local ids, rows, n = items.page(f, '', tonumber(args[1]), LIMITS.page_bytes)
    for index = 1, n do
      flat[2 * index - 1], flat[2 * index] = ids[index], rows[index]
      items.drop(f, ids[index], rows[index])
    end
    for _, member in ipairs(f.lost) do
      f.order[member] = false -- or nobody would ever get past it
    end
    f.head.items = f.head.items - n - #f.lost
    items.write(f)
  end
  feed.save(f)
  return flat
end
