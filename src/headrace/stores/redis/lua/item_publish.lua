-- Put items into a feed in the order given; a feed evicts afterwards if something new came.
--
-- keys     the `m` key of a feed
-- args     now_ms or '', instance; per publication: where ('f'irst, 'l'ast, 'b'efore, 'a'fter, or 'e' for an edit), id or
--          '' to draw one, id of the neighbour or '', item
-- answers  a sign for each: 'p'ublished, 'e'dited, 'k'nown, 'u'nknown, unknown 'n'eighbour, 'f'ull; then the ids that were
--          drawn. Refuses `unknown_feed`, and `wrong_type` for what a feed of its type cannot do
-- flags
local NUMBER_MAX = '999999999999999' -- whoever gives such numbers has to go on giving them
local PLACES = { feed = { l = true, e = true }, plain = { l = true, f = true } }

-- Whether a feed of the type can do all that is asked for; a sorted one can.
local function are_fit(type, args)
  local places = PLACES[type]
  for at = 3, places and #args or 0, 4 do
    if args[at + 1] == '' or not places[args[at]] then
      return false
    end
  end
  return true
end

local function load(f, args)
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

local function draw(f)
  f.number = body.text(f.number + 1)
  return f.number
end

-- An id that is a number is never drawn for another item.
local function lift(f, id)
  if #id <= #NUMBER_MAX and find(id, '^[1-9]%d*$') and tonumber(id) > tonumber(f.number) then
    f.number = id
  end
end

local function edit(f, type, where, id, known, neighbour, item)
  if type == 'feed' then
    items.drop(f, id, known)
    items.put(f, id, item, 'l')
    feed.note(f, 'e', '-', id, item)
    return
  end
  local edited = items.replace(f, id, known, item)
  feed.note(f, 'e', '-', id, item)
  if where ~= 'e' then
    items.move(f, id, edited, where, neighbour)
  end
end

local function publish(f, type, where, id, neighbour, item, drawn)
  local head, known = f.head, id ~= '' and items.row(f, id)
  if not known and where == 'e' then
    return 'u'
  elseif known and type == 'plain' then
    return 'k'
  elseif neighbour ~= '' and not items.row(f, neighbour) then
    return 'n'
  elseif not known and type ~= 'feed' and head.items >= f.cfg.items_max then
    return 'f'
  elseif id == '' and f.number == NUMBER_MAX then
    return 'f'
  end
  head.total = head.total + 1
  if known then
    edit(f, type, where, id, known, neighbour, item)
    return 'e'
  end
  if id == '' then
    id = draw(f)
    drawn[#drawn + 1] = id
  elseif type == 'sorted' then
    lift(f, id)
  end
  items.put(f, id, item, where, neighbour)
  head.items = head.items + 1
  if type == 'plain' then
    feed.touch(f)
  else
    feed.note(f, 'p', type == 'sorted' and where or '-', id, item, neighbour)
  end
  return 'p'
end

local function run(keys, args)
  local f = feed.open(keys[1], shard.now(args[1]))
  if not f then
    return feed.unknown()
  end
  local type = f.cfg.type
  if not are_fit(type, args) then
    return feed.wrong_type(f)
  end
  feed.start(f, args[2])
  load(f, args)
  local said, drawn, n = {}, {}, 0
  for at = 3, #args, 4 do
    n = n + 1
    said[n] = publish(f, type, args[at], args[at + 1], args[at + 2], args[at + 3], drawn)
  end
  local answer = concat(said)
  if type == 'feed' and find(answer, 'p', 1, true) then
    items.evict(f)
  end
  feed.close(f)
  items.write(f)
  feed.save(f)
  if find(answer, '[pe]') then
    feed.tell(f)
  end
  return { answer, unpack(drawn) }
end
