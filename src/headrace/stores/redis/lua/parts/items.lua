-- Items: the items of a feed, by id in the hash `i`, and their order in the sorted set `o`.
--
-- uses  chunked, feed
--
-- An item is packed: at_ms 6 · size of the rank 2 · rank · item. A member of the order is rank · \0 · id; members sort
-- as their ranks do, since no rank holds a character as small as \1.
--
-- A call keeps items by id in f.rows, false for none, and marks changed ids in f.dirty; in f.order it collects members,
-- true to add and false to drop. Some members are written before the order is read again; by then all that may be
-- refused is checked.

local items = {}

local function pack_item(at_packed, item_rank, item)
  return at_packed .. struct_pack('>I2', #item_rank) .. item_rank .. item
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
  return struct_unpack('>I6', packed)
end

function items.id_of(member)
  return sub(member, find(member, '\0', 1, true) + 1)
end

-- The rank of a member, false for none.
local function rank_in(member)
  return member and sub(member, 1, find(member, '\0', 1, true) - 1) or false
end
items.rank_in = rank_in

-- The instant at or before which published items have expired; negative when items do not expire.
function items.expired_at(f)
  local keep = f.cfg.items_keep_ms
  return keep > 0 and math.max(f.now, f.counters.at) - keep or -1
end

-- Load the items of these ids, unless they are loaded.
function items.load(f, ids)
  local rows, wanted, n = f.rows, {}, 0
  for index = 1, #ids do
    local id = ids[index]
    if rows[id] == nil then
      n = n + 1
      wanted[n], rows[id] = id, false
    end
  end
  for first = 1, n, LIMITS.batch_max do
    local last = math.min(first + LIMITS.batch_max - 1, n)
    local found = call('HMGET', f.items_key, unpack(wanted, first, last))
    for index = first, last do
      rows[wanted[index]] = found[index - first + 1]
    end
  end
end

-- The item of an id; false for none.
function items.row(f, id)
  local found = f.rows[id]
  if found == nil then
    found = call('HGET', f.items_key, id)
    f.rows[id] = found
  end
  return found
end

-- Set an item under the rank that it was packed with.
local function set(f, id, item_rank, packed)
  f.rows[id], f.dirty[id] = packed, true
  f.order[item_rank .. '\0' .. id] = true
end
items.set = set

-- Forget what feed_position.lua remembers of the order: a rank is free now.
local function forget_neighbours(f, item_rank)
  if f.first_rank == item_rank then
    f.first_rank = nil
  end
  if f.last_rank == item_rank then
    f.last_rank = nil
  end
  f.below, f.above, f.has_dropped_members = {}, {}, true
end

-- Drop an item.
function items.drop(f, id, packed)
  local item_rank = rank_of(packed)
  f.rows[id], f.dirty[id] = false, true
  f.order[item_rank .. '\0' .. id] = false
  forget_neighbours(f, item_rank)
end

-- Write the members of the order.
local function write_order(f)
  if next(f.order) == nil then
    return
  end
  local added, n, dropped, m = {}, 0, {}, 0
  for member, is_kept in pairs(f.order) do
    if is_kept then
      added[n + 1], added[n + 2] = 0, member
      n = n + 2
    else
      m = m + 1
      dropped[m] = member
    end
  end
  f.order, f.has_dropped_members = {}, false
  chunked.run('ZREM', f.ranks_key, dropped, m)
  chunked.run('ZADD', f.ranks_key, added, n)
end
items.write_order = write_order

-- Write the items and their order.
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
  chunked.run('HDEL', f.items_key, dropped, m)
  chunked.run('HSET', f.items_key, kept, n)
end

-- Replace an item at its position; returns the new packed item.
function items.replace(f, id, packed, item)
  local replaced = pack_item(f.at_packed, rank_of(packed), item)
  f.rows[id], f.dirty[id] = replaced, true
  return replaced
end

-- Keep an item of a directory, whose name is its rank.
function items.put_named(f, name, item)
  set(f, name, name, pack_item(f.at_packed, name, item))
end

-- Load the items of these members.
function items.load_members(f, members)
  local ids = {}
  for index, member in ipairs(members) do
    ids[index] = items.id_of(member)
  end
  items.load(f, ids)
end

local function is_expired(f, id, expired_at)
  local packed = items.row(f, id)
  return not packed or items.at_of(packed) <= expired_at
end

-- Evict the oldest items beyond the feed's bounds, a bounded number; returns how many.
function items.evict(f)
  local counters, expired_at = f.counters, items.expired_at(f)
  local surplus = math.min(counters.items - f.cfg.items_max, LIMITS.evict_per_call_max)
  if surplus <= 0 and expired_at < 0 then
    return 0
  end
  write_order(f)
  local evicted, start, size = 0, 0, math.max(surplus, 0) + (expired_at < 0 and 0 or 1)
  while evicted < LIMITS.evict_per_call_max and (evicted < surplus or expired_at >= 0) do
    local members = call('ZRANGE', f.ranks_key, start, start + size - 1)
    if evicted >= surplus then
      items.load_members(f, members)
    end
    for _, member in ipairs(members) do
      local id = items.id_of(member)
      local is_surplus = evicted < surplus
      local is_done = evicted == LIMITS.evict_per_call_max or expired_at < 0
      if not is_surplus and (is_done or not is_expired(f, id, expired_at)) then
        counters.items = counters.items - evicted
        return evicted
      end
      f.rows[id], f.dirty[id], f.order[member] = false, true, false
      forget_neighbours(f, rank_in(member))
      feed.note_change(f, 'r', is_surplus and 'c' or 'o', id)
      evicted = evicted + 1
    end
    if #members < size then
      break
    end
    start, size = start + size, 100
  end
  counters.items = counters.items - evicted
  return evicted
end

-- The items behind a rank, in order, until a limit of items or of bytes is reached: their ids, the packed items, how
-- many these are, and whether there are more. Members without an item, which should not exist, are kept in
-- f.lost_members.
function items.read_page(f, start, limit, bytes)
  local members = call('ZRANGE', f.ranks_key, '(' .. start .. '\1', '+', 'BYLEX', 'LIMIT', 0, limit + 1)
  local last, ids, rows, n, at, size, chunk = math.min(#members, limit), {}, {}, 0, 0, 0, 16
  f.lost_members = {}
  while at < last and size < bytes do
    local wanted = {}
    for index = at + 1, math.min(at + chunk, last) do
      wanted[index - at] = items.id_of(members[index])
    end
    local found = call('HMGET', f.items_key, unpack(wanted))
    for index = 1, #wanted do
      at = at + 1
      if found[index] then
        n = n + 1
        ids[n], rows[n] = wanted[index], found[index]
        size = size + #ids[n] + #item_of(rows[n])
      else
        f.lost_members[#f.lost_members + 1] = members[at]
      end
      if size >= bytes then
        break
      end
    end
    -- As many as fit by the average so far: few are fetched in vain.
    chunk = math.max(1, math.min(LIMITS.batch_max, floor((bytes - size) / (size / at + 1))))
  end
  return ids, rows, n, at < #members
end

return items
