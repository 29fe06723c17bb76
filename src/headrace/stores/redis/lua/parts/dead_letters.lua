-- Dead letters: the whole record of a job that died, under a number that only grows.
--
-- Packed: reason 1 · died_at 6 · until 6 · sizes of id, error class and error message 2 each · these · body.

local dead_letters = {}

local REASONS = { attempts = 'a', stalls = 's', failed = 'f', expired = 'e' }

local function parts(packed)
  local until_ms, id_size, class_size, message_size = cut('>I6I2I2I2', packed, 8)
  return {
    until_ms = until_ms,
    id = sub(packed, 20, 19 + id_size),
    body = sub(packed, 20 + id_size + class_size + message_size),
  }
end

function dead_letters.until_ms(packed)
  return (cut('>I6', packed, 8))
end

local function changes(s)
  if not s.dead_letters then
    s.dead_letters = { new = {}, gone = {}, at = 0, first = 1, found = {}, count = call('HLEN', s.names.d) }
  end
  return s.dead_letters
end

function dead_letters.put(s, id, packed, reason, class, message)
  local all = changes(s)
  local number = s.head.dead_letter + 1
  s.head.dead_letter = number
  local died, over = s.now, s.now + s.cfg.keep_dead_ms
  local start = pack('>c1I6I6I2I2I2', REASONS[reason], died, over, #id, #class, #message)
  all.new[#all.new + 1] = { number = body.text(number), packed = start .. id .. class .. message .. packed, id = id }
  all.count = all.count + 1
  return number
end

-- The dead letter with a number, given as text: its parts; nil when there is none.
function dead_letters.get(s, number)
  if s.dead_letters and s.dead_letters.gone[number] then
    return nil
  end
  local packed = call('HGET', s.names.d, number)
  if not packed then
    return nil
  end
  local found = parts(packed)
  found.number = number
  return found
end

-- The numbers of all dead letters of an id, as text, oldest first.
function dead_letters.numbers_of(s, id)
  local found = {}
  for _, member in ipairs(call('ZRANGE', s.names.di, '[' .. id .. '\0', '(' .. id .. '\1', 'BYLEX')) do
    local number = body.text(tonumber(sub(member, #id + 2)))
    if not (s.dead_letters and s.dead_letters.gone[number]) then
      found[#found + 1] = number
    end
  end
  return found
end

function dead_letters.drop(s, number, id)
  local all = changes(s)
  all.gone[number] = id
  all.count = all.count - 1
end

-- Throw one dead letter away, with its event.
function dead_letters.purge(s, dead_letter)
  local kind, tag = body.kind_and_tag(dead_letter.body)
  journal.note(s, '{"event":"purged","id":' .. json.quote(dead_letter.id)
    .. ',"kind":' .. json.quote(kind)
    .. (tag == '' and '' or ',"tag":' .. json.quote(tag))
    .. ',"dead_letter":' .. dead_letter.number .. '}')
  dead_letters.drop(s, dead_letter.number, dead_letter.id)
end

-- The oldest dead letter that this call has not looked at: first those that are there, then its own.
local function oldest(s, all, wanted)
  if not all.found[all.at + 1] then
    local numbers = call('ZRANGE', s.names.dn, all.at, all.at + math.min(wanted, 16) - 1)
    local packed = waiting.get_all(s.names.d, numbers)
    for i = 1, #numbers do
      all.found[all.at + i] = { numbers[i], packed[i] }
    end
  end
  local found = all.found[all.at + 1]
  if found then
    local dead_letter = found[2] and parts(found[2]) or { until_ms = 0, id = '', body = nil }
    dead_letter.number = found[1]
    return dead_letter
  end
  local own = all.new[all.first]
  if own then
    local dead_letter = parts(own.packed)
    dead_letter.number = own.number
    return dead_letter
  end
end

-- Drop dead letters beyond the queue's bounds, oldest first, each with its event; says how many.
function dead_letters.sweep(s, limit)
  local all, swept = changes(s), 0
  while swept < limit and all.count > 0 do
    local dead_letter = oldest(s, all, limit - swept)
    if not dead_letter or (all.count <= s.cfg.keep_dead_max and dead_letter.until_ms > s.now) then
      break
    end
    if all.found[all.at + 1] then
      all.found[all.at + 1] = nil
      all.at = all.at + 1
    else
      all.first = all.first + 1
    end
    if dead_letter.body then
      dead_letters.purge(s, dead_letter)
      swept = swept + 1
    else
      waiting.quarantine(s, 'd', dead_letter.number)
      dead_letters.drop(s, dead_letter.number, '')
    end
  end
  return swept
end

local function index_of(id, number)
  return id .. '\0' .. string.rep('0', 16 - #number) .. number
end

function dead_letters.write(s)
  local all = s.dead_letters
  if not all then
    return
  end
  local numbers, members, n = {}, {}, 0
  for number, id in pairs(all.gone) do
    n = n + 1
    numbers[n], members[n] = number, index_of(id, number)
  end
  local hash, scores, index, h = {}, {}, {}, 0
  for _, dead_letter in ipairs(all.new) do
    if not all.gone[dead_letter.number] then
      hash[h + 1], hash[h + 2] = dead_letter.number, dead_letter.packed
      scores[h + 1], scores[h + 2] = dead_letter.number, dead_letter.number
      index[h + 1], index[h + 2] = '0', index_of(dead_letter.id, dead_letter.number)
      h = h + 2
    end
  end
  waiting.each_chunk('HDEL', s.names.d, numbers, n)
  waiting.each_chunk('ZREM', s.names.dn, numbers, n)
  waiting.each_chunk('ZREM', s.names.di, members, n)
  waiting.each_chunk('HSET', s.names.d, hash, h)
  waiting.each_chunk('ZADD', s.names.dn, scores, h)
  waiting.each_chunk('ZADD', s.names.di, index, h)
  s.dead_letters = nil
end
