-- Feed position: where the items of a feed stand: 'f'irst, 'l'ast, 'b'efore or 'a'fter another item.
--
-- uses  rank, feed, items
--
-- A call remembers the ranks of neighbours in f.below and f.above, and those at the ends in f.first_rank and
-- f.last_rank; false means no item, nil unknown.

local feed_position = {}

-- Write the order before it is read again, if members were dropped. Added members need not be written: the neighbours
-- of each are remembered.
local function write_drops(f)
  if f.has_dropped_members then
    items.write_order(f)
  end
end

-- The rank of the first item; remembered, since most items are put at an end.
local function first_rank(f)
  if f.first_rank == nil then
    write_drops(f)
    f.first_rank = items.rank_in(call('ZRANGE', f.ranks_key, 0, 0)[1])
  end
  return f.first_rank
end

local function last_rank(f)
  if f.last_rank == nil then
    write_drops(f)
    f.last_rank = items.rank_in(call('ZRANGE', f.ranks_key, 0, 0, 'REV')[1])
  end
  return f.last_rank
end

local function rank_before(f, item_rank)
  if f.below[item_rank] == nil then
    write_drops(f)
    local found = call('ZRANGE', f.ranks_key, '(' .. item_rank .. '\0', '-', 'BYLEX', 'REV', 'LIMIT', 0, 1)
    f.below[item_rank] = items.rank_in(found[1])
  end
  return f.below[item_rank]
end

local function rank_after(f, item_rank)
  if f.above[item_rank] == nil then
    write_drops(f)
    local found = call('ZRANGE', f.ranks_key, '(' .. item_rank .. '\1', '+', 'BYLEX', 'LIMIT', 0, 1)
    f.above[item_rank] = items.rank_in(found[1])
  end
  return f.above[item_rank]
end

-- Remember the neighbours of a new rank.
local function link(f, low, item_rank, high)
  f.below[item_rank], f.above[item_rank] = low or false, high or false
  if low then
    f.above[low] = item_rank
  else
    f.first_rank = item_rank
  end
  if high then
    f.below[high] = item_rank
  else
    f.last_rank = item_rank
  end
end

-- Members up to the rank `low`, backwards, and members behind it: as many as get new ranks, and one more.
local function members_around(f, low, high)
  items.write_order(f)
  local wanted, before, after = LIMITS.rerank_max + 1, {}, {}
  if low then
    before = call('ZRANGE', f.ranks_key, '(' .. low .. '\1', '-', 'BYLEX', 'REV', 'LIMIT', 0, wanted)
  end
  if high then
    after = call('ZRANGE', f.ranks_key, '(' .. (low or '') .. '\1', '+', 'BYLEX', 'LIMIT', 0, wanted)
  end
  return before, after
end

-- Draw new ranks for the items around a position, with room for one between `low` and `high`; the order stays. Returns
-- the free rank.
local function rerank(f, low, high)
  local before, after = members_around(f, low, high)
  local past = LIMITS.rerank_max + 1
  local low_end, high_end = items.rank_in(before[past]), items.rank_in(after[past])
  before[past], after[past] = nil, nil
  items.load_members(f, before)
  items.load_members(f, after)
  local ids, rows, n, lower = {}, {}, 0, 0
  local function take(member)
    local id = items.id_of(member)
    local packed = f.rows[id]
    if packed then
      n = n + 1
      ids[n], rows[n] = id, packed
      items.drop(f, id, packed)
    end
  end
  for index = #before, 1, -1 do
    take(before[index])
  end
  lower = n
  for index = 1, #after do
    take(after[index])
  end
  local ranks = rank.spread(low_end, high_end, n + 1)
  for index = 1, n do
    local item_rank = ranks[index <= lower and index or index + 1]
    local packed = items.pack(sub(rows[index], 1, 6), item_rank, items.item_of(rows[index]))
    items.set(f, ids[index], item_rank, packed)
  end
  f.first_rank, f.last_rank = nil, nil
  return ranks[lower + 1]
end

-- A rank for a position. Where it would grow too long, the items around the position get new ranks.
local function rank_at(f, where, neighbour)
  local low, high
  if where == 'l' then
    low = last_rank(f)
  elseif where == 'f' then
    high = first_rank(f)
  elseif where == 'b' then
    high = items.rank_of(items.row(f, neighbour))
    low = rank_before(f, high)
  else
    low = items.rank_of(items.row(f, neighbour))
    high = rank_after(f, low)
  end
  local found = rank.between(low, high)
  if #found > LIMITS.rank_chars_max then
    return rerank(f, low, high)
  end
  link(f, low, found, high)
  return found
end

-- Put an item at a position; its old row, if any, is dropped before.
function feed_position.put(f, id, item, where, neighbour, at_packed)
  local item_rank = rank_at(f, where, neighbour)
  items.set(f, id, item_rank, items.pack(at_packed or f.at_packed, item_rank, item))
end

local function is_at(f, packed, where, neighbour)
  local item_rank = items.rank_of(packed)
  if where == 'l' then
    return last_rank(f) == item_rank
  elseif where == 'f' then
    return first_rank(f) == item_rank
  elseif where == 'b' then
    return rank_before(f, items.rank_of(items.row(f, neighbour))) == item_rank
  end
  return rank_after(f, items.rank_of(items.row(f, neighbour))) == item_rank
end

-- Move an item to a position; whether it was elsewhere. Next to itself means where it is.
function feed_position.move(f, id, packed, where, neighbour)
  if neighbour == id or is_at(f, packed, where, neighbour) then
    return false
  end
  local item = items.item_of(packed)
  items.drop(f, id, packed)
  feed_position.put(f, id, item, where, neighbour, sub(packed, 1, 6))
  feed.note_change(f, 'm', where, id, item, neighbour)
  return true
end

return feed_position
