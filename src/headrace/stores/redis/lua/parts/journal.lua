-- Journal: the events of a shard. A call collects their lines while it decides, and writes them as one stream entry
-- before anything else.
--
-- uses  json, numbers, job_codec
--
-- An entry has these fields in this order; journal.py makes lines of `e` and `c` when they are read.
--
-- h  epoch, count of the lines, at_ms, worker
-- n  for packed lines: their size as lines, then what they have in common
-- e  packed lines of enqueued jobs, as the caller packs them: 20 bytes instead of 140 each; `n` ends with their instant
--    and the queue's priority
-- c  packed lines of claimed jobs: their ids, separated by line feeds; `n` ends with the fence of the first, which
--    count up
-- l  further lines as they are, behind the packed ones

local journal = {}

local NO_COUNTS = job_codec.NO_COUNTS

-- Add packed lines, 'e' or 'c', with their size as lines; before any other line of the call.
function journal.add_packed(s, kind, bytes, common, packed, count)
  s.packed_lines, s.line_count = { kind, bytes, numbers.text(bytes) .. ' ' .. common, packed }, count
end

-- Add a line; `text` is a JSON object. Loops over whole batches append to s.lines themselves.
function journal.add_line(s, text)
  local n = s.piece_count
  s.lines[n + 1], s.lines[n + 2] = text, '\n'
  s.piece_count = n + 2
  s.line_count = s.line_count + 1
end

-- The JSON members, without braces, that identify a job.
function journal.job_members(id, packed, cfg)
  local kind, tag = job_codec.kind_and_tag(packed)
  return '"id":' .. json.quote(id)
    .. ',"kind":' .. json.quote(kind)
    .. (tag == '' and '' or ',"tag":' .. json.quote(tag))
    .. ',"priority":' .. job_codec.priority(packed, cfg)
    .. ',"payload_bytes":' .. job_codec.payload_bytes(packed)
end

-- The JSON members of a job's attempts and stalls.
function journal.count_members(packed)
  if sub(packed, 13, 20) == NO_COUNTS then
    return ',"attempts":0,"stalls":0'
  end
  local attempts, stalls = job_codec.counts(packed)
  return ',"attempts":' .. attempts .. ',"stalls":' .. stalls
end

local WITHOUT_COUNTS = { enqueued = true, blocked = true, unblocked = true }
local WITH_PAYLOAD = { enqueued = true, updated = true, unblocked = true, merged = true, replayed = true }

-- The JSON member of a payload; '' where the payload is no text. `is_text` spares the check, which costs more than the
-- rest.
function journal.payload_member(packed, is_text)
  local payload = job_codec.payload(packed)
  return (is_text or json.is_utf8(payload)) and ',"payload":' .. json.quote_long(payload) or ''
end

-- Add a line about a waiting or blocked job, with further members `more`; `is_text` when its payload is known to be
-- text.
function journal.add_job_line(s, event, id, packed, more, is_text)
  journal.add_line(s, '{"event":"' .. event .. '",'
    .. journal.job_members(id, packed, s.cfg)
    .. (WITHOUT_COUNTS[event] and '' or journal.count_members(packed))
    .. ',"run_at_ms":' .. numbers.text(job_codec.run_at(packed))
    .. (more or '')
    .. (s.cfg.journal_payloads and WITH_PAYLOAD[event] and journal.payload_member(packed, is_text) or '') .. '}')
end

-- The JSON members of a waiting job that leaves.
function journal.leaving_members(s, id, packed)
  return journal.job_members(id, packed, s.cfg)
    .. journal.count_members(packed)
    .. ',"enqueued_at_ms":' .. numbers.text(job_codec.enqueued_at(packed))
end

-- The JSON members of an error.
function journal.error_members(class, message)
  return ',"error_class":' .. json.quote(class) .. ',"error_message":' .. json.quote(message)
end

-- The bounds of the journal: epoch, first and last number, their instants, bytes.
function journal.bounds(s)
  local counters = s.counters
  return { counters.epoch, counters.first, counters.seq, counters.oldest, counters.at, counters.bytes }
end

-- Write the lines of a call as one entry; the first write of the call.
function journal.write(s)
  if s.line_count == 0 then
    return
  end
  local counters = s.counters
  local seq, at = counters.seq + s.line_count, counters.at
  if s.now > at then
    at = s.now
  end
  local text, packed, fields, size = numbers.text, s.packed_lines, { 'h', '' }, 0
  fields[2] = text(counters.epoch) .. ' ' .. text(s.line_count) .. ' ' .. text(at) .. ' ' .. (s.worker or '')
  if packed then
    fields[3], fields[4], fields[5], fields[6] = 'n', packed[3], packed[1], packed[4]
    size, s.packed_lines = packed[2], nil
  end
  if s.piece_count > 0 then
    local n, lines = #fields, concat(s.lines, '', 1, s.piece_count)
    fields[n + 1], fields[n + 2] = 'l', lines
    size = size + #lines
  end
  call('XADD', s.names.journal, text(seq) .. '-0', unpack(fields))
  if counters.first == counters.seq + 1 then
    counters.oldest = at
  end
  counters.seq, counters.at, counters.bytes = seq, at, counters.bytes + size
  s.lines, s.piece_count, s.line_count = {}, 0, 0
end

-- The size of an entry's lines.
function journal.entry_bytes(entry)
  local fields = entry[2]
  if fields[3] == 'l' then
    return #fields[4]
  end
  return string.match(fields[4], '^%d+') + (fields[8] and #fields[8] or 0)
end

-- The last number that all holding consumers have read; consumers that were silent for long hold nothing.
local function held_seq(s)
  local held = s.counters.seq
  for _, consumer in ipairs(call('HVALS', s.names.consumers)) do
    local seq, hold, seen = string.match(consumer, '^(%d+) (%d) (%d+)$')
    if hold == '1' and tonumber(seen) > s.now - LIMITS.consumer_silent_ms and tonumber(seq) < held then
      held = tonumber(seq)
    end
  end
  return held
end

-- Whether a journal may exceed its queue's retention: by its bytes, the count of its lines less one, and the instant of
-- the oldest.
function journal.exceeds_retention(cfg, bytes, more, oldest, now)
  return bytes > cfg.journal_bytes_max
    or more >= cfg.journal_keep_max
    or (more >= 0 and oldest <= now - cfg.journal_keep_ms)
end

local function may_trim(s)
  local counters = s.counters
  return journal.exceeds_retention(s.cfg, counters.bytes, counters.seq - counters.first, counters.oldest, s.now)
end

-- Iterates over the entries, oldest first, a few at a time: last seq, at_ms and bytes; nil at the end.
local function oldest_entries(key)
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
    return tonumber(string.match(entry[1], '^%d+')), tonumber(at), journal.entry_bytes(entry)
  end
end

-- Drop the oldest entries while `is_over(last_seq, at_ms)`, at most `limit`; returns how many.
function journal.drop(s, limit, is_over)
  local counters, dropped = s.counters, 0
  local next = oldest_entries(s.names.journal)
  local last, at, bytes = next()
  while last and dropped < limit and is_over(last, at) do
    counters.first, counters.bytes = last + 1, counters.bytes - bytes
    dropped = dropped + 1
    last, at, bytes = next()
  end
  counters.oldest = at or 0
  if dropped > 0 then
    call('XTRIM', s.names.journal, 'MINID', format('%.0f', counters.first))
  end
  return dropped
end

-- Drop entries beyond the queue's retention. Age and count wait for holding consumers, bytes never wait.
function journal.trim(s, limit)
  if not may_trim(s) then
    return 0
  end
  local cfg, counters, held = s.cfg, s.counters, held_seq(s)
  return journal.drop(s, limit, function(last, at)
    return counters.bytes > cfg.journal_bytes_max
      or ((counters.seq - last >= cfg.journal_keep_max or at <= s.now - cfg.journal_keep_ms) and last <= held)
  end)
end

return journal
