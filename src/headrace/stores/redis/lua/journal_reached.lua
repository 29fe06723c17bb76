-- The last seq of journals at an instant, by binary search in a span of each.
--
-- uses     journal, shard
-- keys     the `m` keys of shards of any queues, one for each span
-- args     the instant, then per span: the number of shards of the queue, the seq below the span, its last seq
-- answers  per span: nil where the shard does not exist, '' where the call has read enough before, else the last seq at
--          or before the instant
-- flags    no-writes
local LOOK_BYTES, BYTES_MAX = 2000, 2097152 -- an entry comes with its lines: cost of a look, and of a call

local function search(s, low, high, instant)
  local cost = 0
  low, high = math.max(low, s.counters.first - 1), math.min(high, s.counters.seq)
  while low < high do
    local middle = floor((low + high + 1) / 2)
    local entry = call('XRANGE', s.names.journal, format('%.0f', middle), '+', 'COUNT', 1)[1]
    if not entry then
      high = middle - 1
    else
      local last = tonumber(string.match(entry[1], '^%d+'))
      local count, at = string.match(entry[2][2], '^%d+ (%d+) (%d+)')
      if tonumber(at) <= instant then
        low = last
      else
        high = math.min(last - count, middle - 1)
      end
      cost = cost + LOOK_BYTES + journal.entry_bytes(entry)
    end
  end
  return low, cost
end

local function run(keys, args)
  local shards = {}
  for index = 1, #keys do
    shards[index] = args[3 * index - 1]
  end
  local found, refusal = shard.read(keys, shards)
  if refusal then
    return refusal
  end
  local answers, instant, left = {}, tonumber(args[1]), BYTES_MAX
  for index, s in ipairs(found) do
    if s and left <= 0 then
      answers[index] = ''
    elseif s then
      local last, cost = search(s, tonumber(args[3 * index]), tonumber(args[3 * index + 1]), instant)
      answers[index], left = format('%.0f', last), left - cost
    else
      answers[index] = false
    end
  end
  return answers
end
