-- Take items out of a feed in the order given.
--
-- keys     the `m` key of a feed
-- args     now_ms or '', instance, ids
-- answers  a sign for each: '1' retracted, '0' not found. Refuses `unknown_feed`
-- flags    allow-oom
local function run(keys, args)
  local f = feed.open(keys[1], shard.now(args[1]))
  if not f then
    return feed.unknown()
  end
  feed.start(f, args[2])
  local ids, said, is_logged = slice(args, 3, #args), {}, f.cfg.type ~= 'plain'
  items.load(f, ids)
  for index, id in ipairs(ids) do
    local packed = f.rows[id]
    said[index] = packed and '1' or '0'
    if packed then
      items.drop(f, id, packed)
      f.head.items = f.head.items - 1
      if is_logged then
        feed.note(f, 'r', '-', id)
      else
        feed.touch(f)
      end
    end
  end
  local is_news = feed.close(f)
  items.write(f)
  feed.save(f)
  if is_news then
    feed.tell(f)
  end
  return concat(said)
end
