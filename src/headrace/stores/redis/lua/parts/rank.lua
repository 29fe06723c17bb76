-- Rank: texts whose order is the order of a feed's items. model/rank.py draws the same ranks, and explains them.

local rank = {}

local SIGNS, STEP, FIRST_END, NEXT_END = RANK.signs, RANK.step, RANK.first_end, RANK.next_end
local BASE = #SIGNS
local PAIR = BASE * BASE
local values, signs -- by byte, and by number below PAIR; made when they are first needed

local function make_tables()
  values, signs = {}, {}
  for value = 0, BASE - 1 do
    values[byte(SIGNS, value + 1)] = value
  end
  for number = 0, PAIR - 1 do
    local low = number % BASE
    local high = (number - low) / BASE
    signs[number] = sub(SIGNS, high + 1, high + 1) .. sub(SIGNS, low + 1, low + 1)
  end
end

local function value_of(text, at)
  local a, b, c, d = byte(text, at, at + 3)
  return ((values[a] * BASE + values[b]) * BASE + values[c]) * BASE + values[d]
end

local function read(text)
  local levels = { value_of(text, 1) * NEXT_END + value_of(text, 5) }
  for at = 9, #text, 4 do
    levels[#levels + 1] = value_of(text, at)
  end
  return levels
end

local function four_signs(number)
  local low = number % PAIR
  return signs[(number - low) / PAIR] .. signs[low]
end

-- A number of the first level, or of a deeper one, as text.
local function write(number, level)
  if level > 1 then
    return four_signs(number)
  end
  local low = number % NEXT_END
  return four_signs((number - low) / NEXT_END) .. four_signs(low)
end

-- `count` free numbers of one level between two others, nil when there are not as many.
local function free_numbers(under, over, past, count)
  local least, most = under or 0, over or past
  if most - least <= count then
    return nil
  end
  if count > 1 or (not under) == (not over) then
    local gap, found = floor((most - least) / (count + 1)), {}
    for index = 1, count do
      found[index] = least + gap * index
    end
    return found
  end
  if not over then
    return { least + math.min(STEP, floor((past - least) / 2)) }
  end
  return { over - math.min(STEP, floor(over / 2)) }
end

-- `count` ranks between two others, in order; nil or false is no bound on that side.
function rank.spread(low, high, count)
  if not signs then
    make_tables()
  end
  local below, above = low and read(low), high and read(high)
  local prefix, level = '', 1
  while true do
    local under, over = below and below[level], above and above[level]
    local found = free_numbers(under, over, level == 1 and FIRST_END or NEXT_END, count)
    if found then
      for index = 1, count do
        found[index] = prefix .. write(found[index], level)
      end
      return found
    end
    -- No space here: continue one level deeper, below the neighbour at this place.
    if under then
      prefix = prefix .. write(under, level)
      if under ~= over then
        above = nil
      end
    else
      prefix, below = prefix .. write(0, level), nil
      if over ~= 0 then
        above = nil
      end
    end
    level = level + 1
  end
end

-- A rank between two others.
function rank.between(low, high)
  if low and not high and #low == 8 and byte(low, 7) ~= 122 and values then
    -- A step of 64 on: most items come last.
    local value = values[byte(low, 7)] + 2
    return sub(low, 1, 6) .. sub(SIGNS, value, value) .. sub(low, 8)
  end
  return rank.spread(low, high, 1)[1]
end

return rank
