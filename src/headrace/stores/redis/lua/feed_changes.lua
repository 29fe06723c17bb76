-- Changes of a feed after a cursor, oldest first.
--
-- uses     numbers, feed
-- keys     the `m` key of a feed
-- args     limit of changes; birth, epoch and seq of the cursor, or nothing for the oldest changes
-- answers  nil when the feed does not exist, else 'kept', 'gap' or 'gone', birth, epoch and seq of the last change, and
--          the next entries of the log as they are, until the limit or 4 MiB is reached
-- flags    allow-oom
local function entries_from(f, start, left)
  local found, bytes, chunk = {}, 0, 32
  while left > 0 and bytes < LIMITS.changes_page_bytes do
    local wanted = math.min(left, chunk)
    local entries = call('XRANGE', f.log_key, start, '+', 'COUNT', wanted)
    for _, entry in ipairs(entries) do
      found[#found + 1] = entry
      bytes = bytes + #entry[2][4] + #entry[2][6]
      if bytes >= LIMITS.changes_page_bytes then
        return found
      end
    end
    if #entries < wanted then
      return found
    end
    left, start = left - wanted, '(' .. entries[wanted][1]
    chunk = math.max(1, math.min(LIMITS.batch_max, floor((LIMITS.changes_page_bytes - bytes) / (bytes / #found + 1))))
  end
  return found
end

-- Whether the log still has everything behind a cursor.
local function status_of(f, birth, epoch, seq)
  local counters = f.counters
  if birth ~= f.birth then
    return 'gone'
  end
  if seq < counters.first - 1 or seq > counters.seq then
    return 'gap'
  end
  if seq >= counters.first then
    local entry_epoch = seq == counters.seq and counters.seq_epoch
    if not entry_epoch then
      local entry = call('XRANGE', f.log_key, numbers.text(seq), numbers.text(seq))[1]
      entry_epoch = entry and struct_unpack('>I6', entry[2][2], 3)
    end
    return entry_epoch == epoch and 'kept' or 'gap'
  end
  -- The change at the cursor was dropped, so its epoch cannot be compared; before the first change nothing could be
  -- lost.
  return (seq == 0 or epoch == counters.epoch) and 'kept' or 'gap'
end

local function run(keys, args)
  local f = feed.open_to_read(keys[1])
  if not f then
    return false
  end
  local status, start = 'kept', numbers.text(f.counters.first)
  if args[2] then
    status, start = status_of(f, args[2], tonumber(args[3]), tonumber(args[4])), '(' .. args[4]
  end
  local birth, epoch, seq = feed.log_position(f)
  return { status, birth, epoch, seq, status == 'kept' and entries_from(f, start, tonumber(args[1])) or {} }
end
