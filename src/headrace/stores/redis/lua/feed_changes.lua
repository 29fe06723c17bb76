-- Changes of a feed behind a cursor, oldest first.
--
-- keys     the `m` key of a feed
-- args     limit of changes; birth, epoch and seq of the cursor, or nothing for the oldest that are kept
-- answers  nil when it is not there, else 'kept', 'gap' or 'gone', birth, epoch and seq of the last change, and the next
--          entries of the log as they are, until the limit or 4 MiB is reached
-- flags    allow-oom
local function entries_from(f, start, left)
  local found, bytes, chunk = {}, 0, 32
  while left > 0 and bytes < LIMITS.page_bytes do
    local wanted = math.min(left, chunk)
    local entries = call('XRANGE', f.l, start, '+', 'COUNT', wanted)
    for _, entry in ipairs(entries) do
      found[#found + 1] = entry
      bytes = bytes + #entry[2][4] + #entry[2][6]
      if bytes >= LIMITS.page_bytes then
        return found
      end
    end
    if #entries < wanted then
      return found
    end
    left, start = left - wanted, '(' .. entries[wanted][1]
    chunk = math.max(1, math.min(LIMITS.batch, floor((LIMITS.page_bytes - bytes) / (bytes / #found + 1))))
  end
  return found
end

-- Whether a reader can go on from a cursor.
local function status_of(f, birth, epoch, seq)
  local head = f.head
  if birth ~= f.birth then
    return 'gone'
  end
  if seq < head.first - 1 or seq > head.seq then
    return 'gap'
  end
  if seq >= head.first then
    local seen = seq == head.seq and head.seq_epoch
    if not seen then
      local entry = call('XRANGE', f.l, body.text(seq), body.text(seq))[1]
      seen = entry and cut('>I6', entry[2][2], 3)
    end
    return seen == epoch and 'kept' or 'gap'
  end
  -- What it has seen last was dropped, so it cannot be compared; before the first change there was nothing to lose.
  return (seq == 0 or epoch == head.epoch) and 'kept' or 'gap'
end

local function run(keys, args)
  local f = feed.look(keys[1])
  if not f then
    return false
  end
  local status, start = 'kept', body.text(f.head.first)
  if args[2] then
    status, start = status_of(f, args[2], tonumber(args[3]), tonumber(args[4])), '(' .. args[4]
  end
  local birth, epoch, seq = feed.place(f)
  return { status, birth, epoch, seq, status == 'kept' and entries_from(f, start, tonumber(args[1])) or {} }
end
