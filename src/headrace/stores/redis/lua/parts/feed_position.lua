-- Where items of a feed stand, and how they come to a place: 'f'irst, 'l'ast, 'b'efore or 'a'fter another.

do
  -- Before a look at the order. Members that were added need not be written: whatever is next to one of them is known.
  -- Once a member has left, that is no longer so.
  local function mend(f)
    if f.is_torn then
      items.write_order(f)
    end
  end

  -- The ranks at the ends, false when there is no item; they are remembered, since most items come to an end.
  local function first_rank(f)
    if f.first_rank == nil then
      mend(f)
      f.first_rank = items.rank_in(call('ZRANGE', f.o, 0, 0)[1])
    end
    return f.first_rank
  end

  local function last_rank(f)
    if f.last_rank == nil then
      mend(f)
      f.last_rank = items.rank_in(call('ZRANGE', f.o, 0, 0, 'REV')[1])
    end
    return f.last_rank
  end

  local function rank_before(f, its_rank)
    if f.below[its_rank] == nil then
      mend(f)
      local found = call('ZRANGE', f.o, '(' .. its_rank .. '\0', '-', 'BYLEX', 'REV', 'LIMIT', 0, 1)
      f.below[its_rank] = items.rank_in(found[1])
    end
    return f.below[its_rank]
  end

  local function rank_after(f, its_rank)
    if f.above[its_rank] == nil then
      mend(f)
      local found = call('ZRANGE', f.o, '(' .. its_rank .. '\1', '+', 'BYLEX', 'LIMIT', 0, 1)
      f.above[its_rank] = items.rank_in(found[1])
    end
    return f.above[its_rank]
  end

  -- Remember who stands next to a new one.
  local function link(f, low, its_rank, high)
    f.below[its_rank], f.above[its_rank] = low or false, high or false
    if low then
      f.above[low] = its_rank
    else
      f.first_rank = its_rank
    end
    if high then
      f.below[high] = its_rank
    else
      f.last_rank = its_rank
    end
  end

  -- Members up to the rank `low`, backwards, and behind it: as many as are drawn anew, and one more.
  local function members_around(f, low, high)
    items.write_order(f)
    local wanted, before, after = LIMITS.rerank + 1, {}, {}
    if low then
      before = call('ZRANGE', f.o, '(' .. low .. '\1', '-', 'BYLEX', 'REV', 'LIMIT', 0, wanted)
    end
    if high then
      after = call('ZRANGE', f.o, '(' .. (low or '') .. '\1', '+', 'BYLEX', 'LIMIT', 0, wanted)
    end
    return before, after
  end

  -- Draw the ranks around a place anew, with room for one between `low` and `high`; their order stays.
  local function rerank(f, low, high)
    local before, after = members_around(f, low, high)
    local past = LIMITS.rerank + 1
    local low_end, high_end = items.rank_in(before[past]), items.rank_in(after[past])
    before[past], after[past] = nil, nil
    items.load_those(f, before)
    items.load_those(f, after)
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
      local its_rank = ranks[index <= lower and index or index + 1]
      local packed = items.pack(sub(rows[index], 1, 6), its_rank, items.item_of(rows[index]))
      items.set(f, ids[index], its_rank, packed)
    end
    f.first_rank, f.last_rank = nil, nil
    return ranks[lower + 1]
  end

  -- A rank for an item that comes to a place; those around it get new ones when it would be too long.
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
    if #found > LIMITS.rank_chars then
      return rerank(f, low, high)
    end
    link(f, low, found, high)
    return found
  end

  -- Put an item to a place; its old row, if there was one, has been dropped.
  function items.put(f, id, item, where, neighbour, at_packed)
    local its_rank = rank_at(f, where, neighbour)
    items.set(f, id, its_rank, items.pack(at_packed or f.at_packed, its_rank, item))
  end

  local function stands_at(f, packed, where, neighbour)
    local its_rank = items.rank_of(packed)
    if where == 'l' then
      return last_rank(f) == its_rank
    elseif where == 'f' then
      return first_rank(f) == its_rank
    elseif where == 'b' then
      return rank_before(f, items.rank_of(items.row(f, neighbour))) == its_rank
    end
    return rank_after(f, items.rank_of(items.row(f, neighbour))) == its_rank
  end

  -- Whether the item stood elsewhere before; next to itself it is where it is.
  function items.move(f, id, packed, where, neighbour)
    if neighbour == id or stands_at(f, packed, where, neighbour) then
      return false
    end
    local item = items.item_of(packed)
    items.drop(f, id, packed)
    items.put(f, id, item, where, neighbour, sub(packed, 1, 6))
    feed.note(f, 'm', where, id, item, neighbour)
    return true
  end
end
