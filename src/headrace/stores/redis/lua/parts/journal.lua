-- The journal of a shard: lines are noted while a call decides, and written as one entry before anything else is.

local journal = {}

-- An entry holds fields in this order: `h`, epoch, count, at and worker; what nearly every call writes packed, in `n` the
-- bytes of these lines and what they have in common, in `e` or `c` what differs; and in `l` lines as they are, behind those.
-- A line of `e` takes 20 bytes instead of 140: entries.py makes a text of it when it is read.
--
-- `e`  jobs that were enqueued, as the caller packs them; `n` ends with the time and the queue's priority
-- `c`  ids of jobs that were claimed, with line feeds between them; `n` ends with the fence of the first, which count up

-- Keep lines packed, which have so many bytes; they stand before those that are noted from then on, so none was before.
function journal.keep(s, kind, bytes, common, packed, count)
  s.kept, s.count = { kind, bytes, body.text(bytes) .. ' ' .. common, packed }, count
end

-- Add a line; `text` is a whole JSON object. What is done for every job of a batch adds its lines by itself.
function journal.note(s, text)
  local n = s.pieces
  s.lines[n + 1], s.lines[n + 2] = text, '\n'
  s.pieces = n + 2
  s.count = s.count + 1
end

-- What is said of a record by what it is: members without braces.
function journal.facts(id, packed, cfg)
  local kind, tag = body.kind_and_tag(packed)
  return '"id":' .. json.quote(id)
    .. ',"kind":' .. json.quote(kind)
    .. (tag == '' and '' or ',"tag":' .. json.quote(tag))
    .. ',"priority":' .. body.priority(packed, cfg)
    .. ',"payload_bytes":' .. body.payload_bytes(packed)
end

function journal.counts(packed)
  if sub(packed, 13, 20) == NO_COUNTS then
    return ',"attempts":0,"stalls":0'
  end
  local attempts, stalls = body.counts(packed)
  return ',"attempts":' .. attempts .. ',"stalls":' .. stalls
end

local FRESH = { enqueued = true, blocked = true, unblocked = true }
local CARRIERS = { enqueued = true, updated = true, unblocked = true, merged = true, replayed = true }

-- What a line carries of a body's payload where the queue wants it: a member, or nothing of one that is no text.
-- `is_text` when the caller has looked: looking costs more than all the rest.
function journal.carried(packed, is_text)
  local payload = body.payload(packed)
  return (is_text or json.is_utf8(payload)) and ',"payload":' .. json.quote_long(payload) or ''
end

-- A line about a record that waits: what it is and when it is due; `is_text` when its payload is known to be one.
function journal.waits(s, event, id, packed, more, is_text)
  journal.note(s, '{"event":"' .. event .. '",'
    .. journal.facts(id, packed, s.cfg)
    .. (FRESH[event] and '' or journal.counts(packed))
    .. ',"run_at_ms":' .. body.text(body.run_at(packed))
    .. (more or '')
    .. (s.cfg.journal_payloads and CARRIERS[event] and journal.carried(packed, is_text) or '') .. '}')
end

-- What is said of a waiting record that leaves.
function journal.leaving(s, id, packed)
  return journal.facts(id, packed, s.cfg)
    .. journal.counts(packed)
    .. ',"enqueued_at_ms":' .. body.text(body.enqueued_at(packed))
end

-- The error of a job that died or is tried again: members without braces.
function journal.failure(class, message)
  return ',"error_class":' .. json.quote(class) .. ',"error_message":' .. json.quote(message)
end

-- What is there to read: epoch, first and last number, times of these, bytes.
function journal.bounds(s)
  local head = s.head
  return { head.epoch, head.first, head.seq, head.oldest, head.at, head.bytes }
end

-- Write what was noted as one entry: the first write of a call.
function journal.write(s)
  if s.count == 0 then
    return
  end
  local head = s.head
  local seq, at = head.seq + s.count, head.at
  if s.now > at then
    at = s.now
  end
  local text, kept, fields, size = body.text, s.kept, { 'h', '' }, 0
  fields[2] = text(head.epoch) .. ' ' .. text(s.count) .. ' ' .. text(at) .. ' ' .. (s.worker or '')
  if kept then
    fields[3], fields[4], fields[5], fields[6] = 'n', kept[3], kept[1], kept[4]
    size, s.kept = kept[2], nil
  end
  if s.pieces > 0 then
    local n, lines = #fields, concat(s.lines, '', 1, s.pieces)
    fields[n + 1], fields[n + 2] = 'l', lines
    size = size + #lines
  end
  call('XADD', s.names.j, text(seq) .. '-0', unpack(fields))
  if head.first == head.seq + 1 then
    head.oldest = at
  end
  head.seq, head.at, head.bytes = seq, at, head.bytes + size
  s.lines, s.pieces, s.count = {}, 0, 0
end

-- The bytes of the lines of an entry.
function journal.bytes(entry)
  local fields = entry[2]
  if fields[3] == 'l' then
    return #fields[4]
  end
  return string.match(fields[4], '^%d+') + (fields[8] and #fields[8] or 0)
end

local function held_seq(s)
  local held = s.head.seq
  for _, said in ipairs(call('HVALS', s.names.jc)) do
    local seq, hold, seen = string.match(said, '^(%d+) (%d) (%d+)$')
    if hold == '1' and tonumber(seen) > s.now - LIMITS.consumer_silent_ms and tonumber(seq) < held then
      held = tonumber(seq)
    end
  end
  return held
end

-- Whether a journal may hold entries beyond its queue's retention, by its bytes, the number of its lines less one, and the
-- time of the oldest.
function journal.is_over(cfg, bytes, more, oldest, now)
  return bytes > cfg.journal_bytes_max
    or more >= cfg.journal_keep_max
    or (more >= 0 and oldest <= now - cfg.journal_keep_ms)
end

local function may_trim(s)
  local head = s.head
  return journal.is_over(s.cfg, head.bytes, head.seq - head.first, head.oldest, s.now)
end

-- The entries from the front, a few at a time: last seq, at_ms and bytes of the next one; nil at the end.
local function from_the_front(key)
  local entries, index, start, is_end = {}, 0, '-', false
  return function()
    index = index + 1
    if not entries[index] and not is_end then
      entries, index = call('XRANGE', key, start, '+', 'COUNT', 8), 1
      is_end = #entries < 8
      start = #entries > 0 and '(' .. entries[#entries][1]
    end
    local entry = entries[index]
    if not entry then
      return nil
    end
    local at = string.match(entry[2][2], '^%d+ %d+ (%d+)')
    return tonumber(string.match(entry[1], '^%d+')), tonumber(at), journal.bytes(entry)
  end
end

-- Drop entries from the front while `is_over(last_seq, at_ms)`, at most `limit`; says how many.
function journal.drop(s, limit, is_over)
  local head, dropped = s.head, 0
  local next = from_the_front(s.names.j)
  local last, at, bytes = next()
  while last and dropped < limit and is_over(last, at) do
    head.first, head.bytes = last + 1, head.bytes - bytes
    dropped = dropped + 1
    last, at, bytes = next()
  end
  head.oldest = at or 0
  if dropped > 0 then
    call('XTRIM', s.names.j, 'MINID', format('%.0f', head.first))
  end
  return dropped
end

-- Drop entries beyond the queue's retention; age and count wait for readers that hold, bytes wait for nobody.
function journal.trim(s, limit)
  if not may_trim(s) then
    return 0
  end
  local cfg, head, held = s.cfg, s.head, held_seq(s)
  return journal.drop(s, limit, function(last, at)
    return head.bytes > cfg.journal_bytes_max
      or ((head.seq - last >= cfg.journal_keep_max or at <= s.now - cfg.journal_keep_ms) and last <= held)
  end)
end
