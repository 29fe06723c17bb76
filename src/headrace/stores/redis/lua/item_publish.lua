-- Publish items to a feed in the given order; then evict old ones if an item is new.
--
-- uses     numbers, shard, feed, items, feed_position
-- keys     the `m` key of a feed
-- args     now_ms or '', instance; per publication: position ('f'irst, 'l'ast, 'b'efore, 'a'fter, or 'e' for an edit),
--          id or '' to draw one, id of the neighbour or '', item
-- answers  a character for each: 'p'ublished, 'e'dited, 'k'nown, 'u'nknown, unknown 'n'eighbour, 'f'ull; then the ids
--          that were drawn. Refuses `unknown_feed`, and `wrong_type` for what a feed of its type does not allow
-- flags
local NUMBER_MAX = '999999999999999' -- beyond it numbers are no longer drawn
local POSITIONS = { feed = { l = true, e = true }, queue = { l = true, f = true } }

-- Whether a feed of this type allows all publications; a sorted one does.
local function are_allowed(type, args)
  local positions = POSITIONS[type]
  for at = 3, positions and #args or 0, 4 do
    if args[at + 1] == '' or not positions[args[at]] then
      return false
    end
  end
  return true
end

local function load_items(f, args)
  local ids, n = {}, 0
  for at = 3, #args, 4 do
    for offset = 1, 2 do
      local id = args[at + offset]
      if id ~= '' then
        n = n + 1
        ids[n] = id
      end
    end
  end
  items.load(f, ids)
end

-- Draw a new id.
local function draw_id(f)
  f.number = numbers.text(f.number + 1)
  return f.number
end

-- Skip a number that was given as an id, so that it is never drawn for another item.
local function skip_number(f, id)
  if #id <= #NUMBER_MAX and find(id, '^[1-9]%d*$') and tonumber(id) > tonumber(f.number) then
    f.number = id
  end
end

local function edit(f, type, where, id, old, neighbour, item)
  if type == 'feed' then
    items.drop(f, id, old)
    feed_position.put(f, id, item, 'l')
    feed.note_change(f, 'e', '-', id, item)
    return
  end
  local edited = items.replace(f, id, old, item)
  feed.note_change(f, 'e', '-', id, item)
  if where ~= 'e' then
    feed_position.move(f, id, edited, where, neighbour)
  end
end

local function publish(f, type, where, id, neighbour, item, drawn)
  local counters, old = f.counters, id ~= '' and items.row(f, id)
  if not old and where == 'e' then
    return 'u'
  elseif old and type == 'queue' then
    return 'k'
  elseif neighbour ~= '' and not items.row(f, neighbour) then
    return 'n'
  elseif not old and type ~= 'feed' and counters.items >= f.cfg.items_max then
    return 'f'
  elseif id == '' and f.number == NUMBER_MAX then
    return 'f'
  end
  counters.total = counters.total + 1
  if old then
    edit(f, type, where, id, old, neighbour, item)
    return 'e'
  end
  if id == '' then
    id = draw_id(f)
    drawn[#drawn + 1] = id
  elseif type == 'sorted' then
    skip_number(f, id)
  end
  feed_position.put(f, id, item, where, neighbour)
  counters.items = counters.items + 1
  if type == 'queue' then
    feed.touch(f)
  else
    feed.note_change(f, 'p', type == 'sorted' and where or '-', id, item, neighbour)
  end
  return 'p'
end

local function run(keys, args)
  local f = feed.open(keys[1], shard.now(args[1]))
  if not f then
    return feed.unknown_feed()
  end
  local type = f.cfg.type
  if not are_allowed(type, args) then
    return feed.wrong_type(f)
  end
  feed.begin_change(f, args[2])
  load_items(f, args)
  local statuses, drawn, n = {}, {}, 0
  for at = 3, #args, 4 do
    n = n + 1
    statuses[n] = publish(f, type, args[at], args[at + 1], args[at + 2], args[at + 3], drawn)
  end
  local answer = concat(statuses)
  if type == 'feed' and find(answer, 'p', 1, true) then
    items.evict(f)
  end
  feed.write_changes(f)
  items.write(f)
  feed.save(f)
  if find(answer, '[pe]') then
    feed.notify_readers(f)
  end
  return { answer, unpack(drawn) }
end
