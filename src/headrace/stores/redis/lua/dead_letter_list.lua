-- A page of dead letters, by number.
--
-- uses     numbers, shard
-- keys     the `m` key of a shard
-- args     number of shards, now_ms or '', number of the dead letter before the page, limit; then 0
-- answers  nil when the shard does not exist, else now_ms, and number and dead letter in turn
-- flags    no-writes
local function run(keys, args)
  local now = shard.now(args[2])
  local found, refusal = shard.read(keys, args[1], now)
  if refusal then
    return refusal
  end
  local s = found[1]
  if not s then
    return { false }
  end
  local flat = {}
  local names = s.names
  local after, limit = '(' .. args[3], args[4]
  local letter_numbers = call('ZRANGE', names.dead_letter_numbers, after, '+inf', 'BYSCORE', 'LIMIT', 0, limit)
  local values = #letter_numbers > 0 and call('HMGET', names.dead_letters, unpack(letter_numbers)) or {}
  for index, number in ipairs(letter_numbers) do
    flat[#flat + 1] = number
    flat[#flat + 1] = values[index]
  end
  return { { numbers.text(now), flat } }
end
