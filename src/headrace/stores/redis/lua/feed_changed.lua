-- Whether a feed has changes after a cursor, or an item queue has items.
--
-- uses     feed
-- keys     the `m` key of a feed
-- args     birth, epoch and seq of the cursor, or nothing
-- answers  1 if so, else 0
-- flags    no-writes
local function run(keys, args)
  local f = feed.find(keys[1])
  if not f then
    return args[1] and 1 or 0
  end
  local is_queue = f.cfg.type == 'queue'
  if is_queue and f.counters.items > 0 then
    return 1
  end
  if not args[1] then
    return is_queue and 0 or 1
  end
  local birth, epoch, seq = feed.log_position(f)
  return (birth == args[1] and epoch == args[2] and seq == args[3]) and 0 or 1
end
