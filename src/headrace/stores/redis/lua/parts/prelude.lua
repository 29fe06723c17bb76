-- Prelude: Lua's own functions as locals, which come before all parts and operations. Redis hides these functions while
-- it loads a library, so each call binds them first.

local call, unpack, concat, sort, byte, sub, find, format, floor, struct_pack, struct_unpack, bit_and

-- Bind the functions; every operation does so first, through shard.now, shard.load or feed.find.
local function load_globals()
  if call then
    return
  end
  call = redis.call
  unpack, concat, sort = _G.unpack, table.concat, table.sort
  byte, sub, find, format = string.byte, string.sub, string.find, string.format
  floor, struct_pack, struct_unpack, bit_and = math.floor, struct.pack, struct.unpack, bit.band
end

-- A part of a list. `unpack` would fail on the thousands of values that a claim over many shards has.
local function slice(list, first, last)
  local part = {}
  for i = first, last do
    part[i - first + 1] = list[i]
  end
  return part
end
