-- Dead letters: the whole record of a job that died, under a number that only grows.
--
-- Packed: reason 1 · died_at 6 · until 6 · sizes of id, error class and error message 2 each · these · body.

local letters = {}

local REASONS = { attempts = 'a', stalls = 's', failed = 'f', expired = 'e' }

local function parts(packed)
  local until_ms, id_size, class_size, message_size = cut('>I6I2I2I2', packed, 8)
  return {
    until_ms = until_ms,
    id = sub(packed, 20, 19 + id_size),
    body = sub(packed, 20 + id_size + class_size + message_size),
  }
end

function letters.until_ms(packed)
  return (cut('>I6', packed, 8))
end

local function changes(s)
  if not s.letters then
    s.letters = { new = {}, gone = {}, at = 0, first = 1, found = {}, count = call('HLEN', s.names.d) }
  end
  return s.letters
end

function letters.put(s, id, packed, reason, class, message)
  local all = changes(s)
  local number = s.head.letter + 1
  s.head.letter = number
  local died, over = s.now, s.now + s.cfg.keep_dead_ms
  local start = pack('>c1I6I6I2I2I2', REASONS[reason], died, over, #id, #class, #message)
  all.new[#all.new + 1] = { number = body.text(number), packed = start .. id .. class .. message .. packed, id = id }
  all.count = all.count + 1
  return number
end

-- The letter with a number, given as text: its parts; nil when there is none.
function letters.get(s, number)
  if s.letters and s.letters.gone[number] then
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

-- The numbers of all letters of an id, as text, oldest first.
function letters.numbers_of(s, id)
  local found = {}
  for _, member in ipairs(call('ZRANGE', s.names.di, '[' .. id .. '\0', '(' .. id .. '\1', 'BYLEX')) do
    local number = body.text(tonumber(sub(member, #id + 2)))
    if not (s.letters and s.letters.gone[number]) then
      found[#found + 1] = number
    end
  end
  return found
end

function letters.drop(s, number, id)
  local all = changes(s)
  all.gone[number] = id
  all.count = all.count - 1
end

-- Throw one letter away, with its event.
function letters.purge(s, letter)
  local kind, tag = body.kind_and_tag(letter.body)
  journal.note(s, '{"event":"purged","id":' .. json.quote(letter.id)
    .. ',"kind":' .. json.quote(kind)
    .. (tag == '' and '' or ',"tag":' .. json.quote(tag))
    .. ',"letter":' .. letter.number .. '}')
  letters.drop(s, letter.number, letter.id)
end

-- The oldest letter that this call has not looked at: first those that are there, then its own.
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
    local letter = found[2] and parts(found[2]) or { until_ms = 0, id = '', body = nil }
    letter.number = found[1]
    return letter
  end
  local own = all.new[all.first]
  if own then
    local letter = parts(own.packed)
    letter.number = own.number
    return letter
  end
end

-- Drop letters beyond the queue's bounds, oldest first, each with its event; says how many.
function letters.sweep(s, limit)
  local all, swept = changes(s), 0
  while swept < limit and all.count > 0 do
    local letter = oldest(s, all, limit - swept)
    if not letter or (all.count <= s.cfg.keep_dead_max and letter.until_ms > s.now) then
      break
    end
    if all.found[all.at + 1] then
      all.found[all.at + 1] = nil
      all.at = all.at + 1
    else
      all.first = all.first + 1
    end
    if letter.body then
      letters.purge(s, letter)
      swept = swept + 1
    else
      waiting.quarantine(s, 'd', letter.number)
      letters.drop(s, letter.number, '')
    end
  end
  return swept
end

local function index_of(id, number)
  return id .. '\0' .. string.rep('0', 16 - #number) .. number
end

function letters.write(s)
  local all = s.letters
  if not all then
    return
  end
  local numbers, members, n = {}, {}, 0
  for number, id in pairs(all.gone) do
    n = n + 1
    numbers[n], members[n] = number, index_of(id, number)
  end
  local hash, scores, index, h = {}, {}, {}, 0
  for _, letter in ipairs(all.new) do
    if not all.gone[letter.number] then
      hash[h + 1], hash[h + 2] = letter.number, letter.packed
      scores[h + 1], scores[h + 2] = letter.number, letter.number
      index[h + 1], index[h + 2] = '0', index_of(letter.id, letter.number)
      h = h + 2
    end
  end
  waiting.each_chunk('HDEL', s.names.d, numbers, n)
  waiting.each_chunk('ZREM', s.names.dn, numbers, n)
  waiting.each_chunk('ZREM', s.names.di, members, n)
  waiting.each_chunk('HSET', s.names.d, hash, h)
  waiting.each_chunk('ZADD', s.names.dn, scores, h)
  waiting.each_chunk('ZADD', s.names.di, index, h)
  s.letters = nil
end
