-- Dead letters by number.
--
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', number of the dead letter behind which to go on, limit; then 0
-- answers  nil when the shard is not there, else now_ms, and number and dead letter in turn
-- flags    no-writes
local function run(keys, args)
  local now = shard.now(args[2])
  local found, refused = shard.look(keys, args[1], now)
  if refused then
    return refused
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local flat = {}
  local numbers = call('ZRANGE', s.names.dn, '(' .. args[3], '+inf', 'BYSCORE', 'LIMIT', 0, args[4])
  local dead_letters = #numbers > 0 and call('HMGET', s.names.d, unpack(numbers)) or {}
  for index, number in ipairs(numbers) do
    flat[#flat + 1] = number
    flat[#flat + 1] = dead_letters[index]
  end
  return { { body.text(now), flat } }
end
