-- Ranks: texts whose order is the order of a feed. model/rank.py says the same in Python, and why.

local rank = {}

do
  local SIGNS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'
  local FIRST_END, NEXT_END, STEP, PAIR = 281474976710656, 16777216, 64, 4096
  local values, signs -- of a byte, and of a number below PAIR; made when they are first needed

  local function make_tables()
    values, signs = {}, {}
    for value = 0, 63 do
      values[byte(SIGNS, value + 1)] = value
    end
    for number = 0, PAIR - 1 do
      local low = number % 64
      local high = (number - low) / 64
      signs[number] = sub(SIGNS, high + 1, high + 1) .. sub(SIGNS, low + 1, low + 1)
    end
  end

  local function value_of(text, at)
    local a, b, c, d = byte(text, at, at + 3)
    return ((values[a] * 64 + values[b]) * 64 + values[c]) * 64 + values[d]
  end

  local function read(text)
    local numbers = { value_of(text, 1) * NEXT_END + value_of(text, 5) }
    for at = 9, #text, 4 do
      numbers[#numbers + 1] = value_of(text, at)
    end
    return numbers
  end

  local function four_signs(number)
    local low = number % PAIR
    return signs[(number - low) / PAIR] .. signs[low]
  end

  -- A number of the first level or of one below.
  local function write(number, level)
    if level > 1 then
      return four_signs(number)
    end
    local low = number % NEXT_END
    return four_signs((number - low) / NEXT_END) .. four_signs(low)
  end

  -- Numbers of one level that are free between two, nil when there are not as many as are wanted.
  local function places(under, over, past, count)
    local least, most = under or 0, over or past
    if most - least <= count then
      return nil
    end
    if count > 1 or (not under) == (not over) then
      local step, found = floor((most - least) / (count + 1)), {}
      for index = 1, count do
        found[index] = least + step * index
      end
      return found
    end
    if not over then
      return { least + math.min(STEP, floor((past - least) / 2)) }
    end
    return { over - math.min(STEP, floor(over / 2)) }
  end

  -- So many ranks between two others, in order; no bound (nil, false) on a side is none.
  function rank.spread(low, high, count)
    if not signs then
      make_tables()
    end
    local below, above = low and read(low), high and read(high)
    local prefix, level = '', 1
    while true do
      local under, over = below and below[level], above and above[level]
      local found = places(under, over, level == 1 and FIRST_END or NEXT_END, count)
      if found then
        for index = 1, count do
          found[index] = prefix .. write(found[index], level)
        end
        return found
      end
      -- No room here: go on one level deeper, below whichever neighbour stands there.
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

  function rank.between(low, high)
    if low and not high and #low == 8 and byte(low, 7) ~= 122 and values then
      -- A step of 64 on: most items come last.
      local value = values[byte(low, 7)] + 2
      return sub(low, 1, 6) .. sub(SIGNS, value, value) .. sub(low, 8)
    end
    return rank.spread(low, high, 1)[1]
  end
end
