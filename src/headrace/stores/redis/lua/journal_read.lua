-- Entries of a journal, oldest first.
--
-- keys     the `m` key of a shard
-- args     number of shards, first seq wanted, last seq wanted, limit of entries, limit of bytes; then 0
-- answers  nil when the shard is not there, else id, header and lines of each entry that holds a wanted event, until a
--          limit is passed
-- flags    allow-oom
local CHUNK = 50

local function run(keys, args)
  local found, refused = shard.open(keys, args[1])
  if refused then
    return refused
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local start, upto, left, bytes = args[2], tonumber(args[3]), tonumber(args[4]), tonumber(args[5])
  local flat = {}
  while left > 0 and bytes > 0 do
    local wanted = math.min(left, CHUNK)
    local entries = call('XRANGE', s.names.j, start, '+', 'COUNT', wanted)
    for _, entry in ipairs(entries) do
      local id, header, lines = entry[1], entry[2][2], entry[2][4]
      local last, count = tonumber(string.match(id, '^%d+')), tonumber(string.match(header, '^%d+ (%d+)'))
      if last - count + 1 > upto or bytes <= 0 then
        return { flat }
      end
      local n = #flat
      flat[n + 1], flat[n + 2], flat[n + 3] = id, header, lines
      left, bytes, start = left - 1, bytes - #lines, '(' .. id
    end
    if #entries < wanted then
      break
    end
  end
  return { flat }
end
