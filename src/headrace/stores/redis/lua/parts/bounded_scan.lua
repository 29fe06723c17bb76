-- Bounded scan: a part of a hash or sorted set with the server's own scan, bounded in values and bytes.

local bounded_scan = {}

local CHUNK = 16 -- members fetched at a time, since the largest values may have 256 KiB each

-- Names and values from a cursor on, and the next cursor ('0' at the end): about `limit` of them, fewer once the values
-- hold `bytes`.
function bounded_scan.read(command, key, cursor, limit, bytes)
  local names, values, n = {}, {}, 0
  repeat
    local count, flat = math.min(limit, CHUNK), nil
    cursor, flat = unpack(call(command, key, cursor, 'COUNT', count))
    for at = 1, #flat, 2 do
      n = n + 1
      names[n], values[n] = flat[at], flat[at + 1]
      bytes = bytes - #flat[at + 1]
    end
    limit = limit - math.max(count, #flat / 2) -- empty slots of a sparse table are work as well
  until cursor == '0' or limit <= 0 or bytes <= 0
  return names, values, cursor
end

return bounded_scan
