-- Chunked: commands over any number of values, a bounded number at a time; `unpack` fails beyond some thousands.

local chunked = {}

local CHUNK = LIMITS.batch_max * 2

-- The values of hash fields for many ids; false where there is none.
function chunked.get_values(key, ids)
  local count = #ids
  if count == 0 then
    return {}
  end
  if count <= CHUNK then
    return call('HMGET', key, unpack(ids))
  end
  local found = {}
  for first = 1, count, CHUNK do
    local last = math.min(first + CHUNK - 1, count)
    local part = call('HMGET', key, unpack(ids, first, last))
    for i = 1, last - first + 1 do
      found[first + i - 1] = part[i]
    end
  end
  return found
end

-- The scores of many members of a sorted set; false where there is none.
function chunked.get_scores(key, ids)
  local found = {}
  for first = 1, #ids, CHUNK do
    local part = call('ZMSCORE', key, unpack(ids, first, math.min(first + CHUNK - 1, #ids)))
    for i = 1, #part do
      found[first + i - 1] = part[i]
    end
  end
  return found
end

-- Call one command with the `n` values of a list; returns the sum of its replies.
function chunked.run(command, key, flat, n)
  if n == 0 then
    return 0
  end
  if n <= CHUNK then
    return call(command, key, unpack(flat, 1, n))
  end
  local sum = 0
  for first = 1, n, CHUNK do
    sum = sum + call(command, key, unpack(flat, first, math.min(first + CHUNK - 1, n)))
  end
  return sum
end

return chunked
