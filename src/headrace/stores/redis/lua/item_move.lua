-- Move items of a sorted feed, in the given order.
--
-- uses     shard, feed, items, feed_position
-- keys     the `m` key of a feed
-- args     now_ms or '', instance; per move: position ('f'irst, 'l'ast, 'b'efore, 'a'fter), id, id of the neighbour or
--          ''
-- answers  a character for each: 'm'oved, '-' unchanged, 'u'nknown, unknown 'n'eighbour. Refuses `unknown_feed`,
--          `wrong_type`
-- flags
local function move(f, where, id, neighbour)
  local packed = items.row(f, id)
  if not packed then
    return 'u'
  elseif neighbour ~= '' and not items.row(f, neighbour) then
    return 'n'
  end
  return feed_position.move(f, id, packed, where, neighbour) and 'm' or '-'
end

local function run(keys, args)
  local f = feed.open(keys[1], shard.now(args[1]))
  if not f then
    return feed.unknown_feed()
  elseif f.cfg.type ~= 'sorted' then
    return feed.wrong_type(f)
  end
  feed.begin_change(f, args[2])
  local statuses, n = {}, 0
  for at = 3, #args, 3 do
    n = n + 1
    statuses[n] = move(f, args[at], args[at + 1], args[at + 2])
  end
  local is_news = feed.write_changes(f)
  items.write(f)
  feed.save(f)
  if is_news then
    feed.notify_readers(f)
  end
  return concat(statuses)
end
