-- Dead letters: the whole record of a job that died, under a number that only grows.
--
-- uses  json, numbers, job_codec, chunked, journal, live_jobs
--
-- Packed: reason 1 · died_at 6 · until 6 · sizes of id, error class and error message 2 each · id, class and message ·
-- body. The members of `di` are id · \0 · number with 16 digits, so that all dead letters of an id are next to each
-- other.

local dead_letters = {}

local REASON_CODES = { attempts = 'a', stalls = 's', failed = 'f', expired = 'e' }

local function read(packed)
  local until_ms, id_size, class_size, message_size = struct_unpack('>I6I2I2I2', packed, 8)
  return {
    until_ms = until_ms,
    id = sub(packed, 20, 19 + id_size),
    body = sub(packed, 20 + id_size + class_size + message_size),
  }
end

function dead_letters.until_ms(packed)
  return (struct_unpack('>I6', packed, 8))
end

-- What this call does to dead letters: `new` ones, `dropped` ones by number, how many there are after it; and for sweeps,
-- how many old (`at`) and new (`first`) ones it has looked at.
local function changes(s)
  if not s.dead_letters then
    s.dead_letters = { new = {}, dropped = {}, at = 0, first = 1, found = {}, count = call('HLEN', s.names.dead_letters) }
  end
  return s.dead_letters
end

-- Keep a dead letter; returns its number.
function dead_letters.put(s, id, packed, reason, class, message)
  local all = changes(s)
  local number = s.counters.dead_letter + 1
  s.counters.dead_letter = number
  local until_ms = s.now + s.cfg.keep_dead_ms
  local start = struct_pack('>c1I6I6I2I2I2', REASON_CODES[reason], s.now, until_ms, #id, #class, #message)
  all.new[#all.new + 1] = { number = numbers.text(number), packed = start .. id .. class .. message .. packed, id = id }
  all.count = all.count + 1
  return number
end

-- The dead letter with a number, as text; nil when there is none.
function dead_letters.get(s, number)
  if s.dead_letters and s.dead_letters.dropped[number] then
    return nil
  end
  local packed = call('HGET', s.names.dead_letters, number)
  if not packed then
    return nil
  end
  local found = read(packed)
  found.number = number
  return found
end

-- The numbers of all dead letters of an id, as text, oldest first.
function dead_letters.numbers_of(s, id)
  local found = {}
  for _, member in ipairs(call('ZRANGE', s.names.dead_letter_ids, '[' .. id .. '\0', '(' .. id .. '\1', 'BYLEX')) do
    local number = numbers.text(tonumber(sub(member, #id + 2)))
    if not (s.dead_letters and s.dead_letters.dropped[number]) then
      found[#found + 1] = number
    end
  end
  return found
end

-- Drop a dead letter, without an event.
function dead_letters.drop(s, number, id)
  local all = changes(s)
  all.dropped[number] = id
  all.count = all.count - 1
end

-- Drop a dead letter, with its event.
function dead_letters.purge(s, dead_letter)
  local kind, tag = job_codec.kind_and_tag(dead_letter.body)
  journal.add_line(s, '{"event":"purged","id":' .. json.quote(dead_letter.id)
    .. ',"kind":' .. json.quote(kind)
    .. (tag == '' and '' or ',"tag":' .. json.quote(tag))
    .. ',"dead_letter":' .. dead_letter.number .. '}')
  dead_letters.drop(s, dead_letter.number, dead_letter.id)
end

-- The oldest dead letter that this call has not looked at: first the stored ones, then its own.
local function oldest(s, all, wanted)
  if not all.found[all.at + 1] then
    local stored = call('ZRANGE', s.names.dead_letter_numbers, all.at, all.at + math.min(wanted, 16) - 1)
    local packed = chunked.get_values(s.names.dead_letters, stored)
    for i = 1, #stored do
      all.found[all.at + i] = { stored[i], packed[i] }
    end
  end
  local found = all.found[all.at + 1]
  if found then
    local dead_letter = found[2] and read(found[2]) or { until_ms = 0, id = '', body = nil }
    dead_letter.number = found[1]
    return dead_letter
  end
  local own = all.new[all.first]
  if own then
    local dead_letter = read(own.packed)
    dead_letter.number = own.number
    return dead_letter
  end
end

-- Drop dead letters beyond the queue's bounds, oldest first, each with its event; returns how many.
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
      live_jobs.quarantine(s, 'd', dead_letter.number)
      dead_letters.drop(s, dead_letter.number, '')
    end
  end
  return swept
end

-- The member of the index by id.
local function id_member(id, number)
  return id .. '\0' .. string.rep('0', 16 - #number) .. number
end
dead_letters.id_member = id_member

-- Write what this call does to dead letters.
function dead_letters.write(s)
  local all = s.dead_letters
  if not all then
    return
  end
  local dropped, members, n = {}, {}, 0
  for number, id in pairs(all.dropped) do
    n = n + 1
    dropped[n], members[n] = number, id_member(id, number)
  end
  local hash, scores, index, h = {}, {}, {}, 0
  for _, dead_letter in ipairs(all.new) do
    if not all.dropped[dead_letter.number] then
      hash[h + 1], hash[h + 2] = dead_letter.number, dead_letter.packed
      scores[h + 1], scores[h + 2] = dead_letter.number, dead_letter.number
      index[h + 1], index[h + 2] = '0', id_member(dead_letter.id, dead_letter.number)
      h = h + 2
    end
  end
  chunked.run('HDEL', s.names.dead_letters, dropped, n)
  chunked.run('ZREM', s.names.dead_letter_numbers, dropped, n)
  chunked.run('ZREM', s.names.dead_letter_ids, members, n)
  chunked.run('HSET', s.names.dead_letters, hash, h)
  chunked.run('ZADD', s.names.dead_letter_numbers, scores, h)
  chunked.run('ZADD', s.names.dead_letter_ids, index, h)
  s.dead_letters = nil
end

return dead_letters
