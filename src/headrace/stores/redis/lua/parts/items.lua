-- The items of a feed: what is in `i` by id, and their order in `o`.
--
-- An item is packed: at_ms 6 · size of the rank 2 · rank · item. A member of the order is rank · \0 · id, so that members
-- sort as ranks do: no rank holds a sign as small as \1.
--
-- A call decides on what it has read and notes what becomes of each id (`rows`, `dirty`) and of each member (`order`).
-- Some members are written before the next look at the order. By then everything that may be refused has been looked at.

local items = {}

do
  local function pack_item(at_packed, its_rank, item)
    return at_packed .. pack('>I2', #its_rank) .. its_rank .. item
  end
  items.pack = pack_item

  local function rank_of(packed)
    return sub(packed, 9, 8 + byte(packed, 7) * 256 + byte(packed, 8))
  end
  items.rank_of = rank_of

  local function item_of(packed)
    return sub(packed, 9 + byte(packed, 7) * 256 + byte(packed, 8))
  end
  items.item_of = item_of

  function items.at_of(packed)
    return cut('>I6', packed)
  end

  function items.id_of(member)
    return sub(member, find(member, '\0', 1, true) + 1)
  end

  -- The rank of a member, false for none.
  local function rank_in(member)
    return member and sub(member, 1, find(member, '\0', 1, true) - 1) or false
  end
  items.rank_in = rank_in

  -- Items published at this instant or before are over; negative when they have no age.
  function items.over(f)
    local keep = f.cfg.items_keep_ms
    return keep > 0 and math.max(f.now, f.head.at) - keep or -1
  end

  -- Read those of some ids that are not known yet.
  function items.load(f, ids)
    local rows, wanted, n = f.rows, {}, 0
    for index = 1, #ids do
      local id = ids[index]
      if rows[id] == nil then
        n = n + 1
        wanted[n], rows[id] = id, false
      end
    end
    for first = 1, n, LIMITS.batch do
      local last = math.min(first + LIMITS.batch - 1, n)
      local found = call('HMGET', f.i, unpack(wanted, first, last))
      for index = first, last do
        rows[wanted[index]] = found[index - first + 1]
      end
    end
  end

  function items.row(f, id)
    local found = f.rows[id]
    if found == nil then
      found = call('HGET', f.i, id)
      f.rows[id] = found
    end
    return found
  end

  -- Note an item under the rank that it was packed with.
  local function set(f, id, its_rank, packed)
    f.rows[id], f.dirty[id] = packed, true
    f.order[its_rank .. '\0' .. id] = true
  end
  items.set = set

  -- A rank is free now: what feed_position.lua remembers of the order holds no longer.
  local function leave(f, its_rank)
    if f.first_rank == its_rank then
      f.first_rank = nil
    end
    if f.last_rank == its_rank then
      f.last_rank = nil
    end
    f.below, f.above, f.is_torn = {}, {}, true
  end

  function items.drop(f, id, packed)
    local its_rank = rank_of(packed)
    f.rows[id], f.dirty[id] = false, true
    f.order[its_rank .. '\0' .. id] = false
    leave(f, its_rank)
  end

  local function write_order(f)
    if next(f.order) == nil then
      return
    end
    local added, n, dropped, m = {}, 0, {}, 0
    for member, is_there in pairs(f.order) do
      if is_there then
        added[n + 1], added[n + 2] = 0, member
        n = n + 2
      else
        m = m + 1
        dropped[m] = member
      end
    end
    f.order, f.is_torn = {}, false
    waiting.each_chunk('ZREM', f.o, dropped, m)
    waiting.each_chunk('ZADD', f.o, added, n)
  end
  items.write_order = write_order

  -- Write what was noted.
  function items.write(f)
    write_order(f)
    local kept, n, dropped, m = {}, 0, {}, 0
    for id in pairs(f.dirty) do
      local packed = f.rows[id]
      if packed then
        kept[n + 1], kept[n + 2] = id, packed
        n = n + 2
      else
        m = m + 1
        dropped[m] = id
      end
    end
    f.dirty = {}
    waiting.each_chunk('HDEL', f.i, dropped, m)
    waiting.each_chunk('HSET', f.i, kept, n)
  end

  -- Replace an item where it is; returns what is there now.
  function items.replace(f, id, packed, item)
    local replaced = pack_item(f.at_packed, rank_of(packed), item)
    f.rows[id], f.dirty[id] = replaced, true
    return replaced
  end

  -- Keep an item of a directory, whose name is its rank.
  function items.keep(f, name, item)
    set(f, name, name, pack_item(f.at_packed, name, item))
  end

  function items.load_those(f, members)
    local ids = {}
    for index, member in ipairs(members) do
      ids[index] = items.id_of(member)
    end
    items.load(f, ids)
  end

  local function is_over(f, id, over)
    local packed = items.row(f, id)
    return not packed or items.at_of(packed) <= over
  end

  -- Take the oldest items beyond the bounds out of a feed, a bounded number; says how many.
  function items.evict(f)
    local head, over = f.head, items.over(f)
    local surplus = math.min(head.items - f.cfg.items_max, LIMITS.evictions)
    if surplus <= 0 and over < 0 then
      return 0
    end
    write_order(f)
    local evicted, start, size = 0, 0, math.max(surplus, 0) + (over < 0 and 0 or 1)
    while evicted < LIMITS.evictions and (evicted < surplus or over >= 0) do
      local members = call('ZRANGE', f.o, start, start + size - 1)
      if evicted >= surplus then
        items.load_those(f, members)
      end
      for _, member in ipairs(members) do
        local id = items.id_of(member)
        local is_surplus = evicted < surplus
        if not is_surplus and (over < 0 or evicted == LIMITS.evictions or not is_over(f, id, over)) then
          head.items = head.items - evicted
          return evicted
        end
        f.rows[id], f.dirty[id], f.order[member] = false, true, false
        leave(f, rank_in(member))
        feed.note(f, 'r', is_surplus and 'c' or 'o', id)
        evicted = evicted + 1
      end
      if #members < size then
        break
      end
      start, size = start + size, 100
    end
    head.items = head.items - evicted
    return evicted
  end

  -- Items behind a rank, in order, until a limit of items or of bytes is reached: their ids, what is packed of each, how
  -- many these are, and whether there are more. Members whose item is gone, which should not be, are noted as `lost`.
  function items.page(f, start, limit, bytes)
    local members = call('ZRANGE', f.o, '(' .. start .. '\1', '+', 'BYLEX', 'LIMIT', 0, limit + 1)
    local last, ids, rows, n, at, size, chunk = math.min(#members, limit), {}, {}, 0, 0, 0, 16
    f.lost = {}
    while at < last and size < bytes do
      local wanted = {}
      for index = at + 1, math.min(at + chunk, last) do
        wanted[index - at] = items.id_of(members[index])
      end
      local found = call('HMGET', f.i, unpack(wanted))
      for index = 1, #wanted do
        at = at + 1
        if found[index] then
          n = n + 1
          ids[n], rows[n] = wanted[index], found[index]
          size = size + #ids[n] + #item_of(rows[n])
        else
          f.lost[#f.lost + 1] = members[at]
        end
        if size >= bytes then
          break
        end
      end
      -- As many as may fit by what they have been so far: few are fetched in vain.
      chunk = math.max(1, math.min(LIMITS.batch, floor((bytes - size) / (size / at + 1))))
    end
    return ids, rows, n, at < #members
  end
end
