-- Shards of any queues: their counts, and the configuration of their queue.
--
-- uses     numbers, key_names, shard, state_counts
-- keys     the `m` keys of shards
-- args     now_ms or ''
-- answers  per shard: number of shards, nil where it does not exist; that of its fail queue or main queue, or nil; and
--          where it exists: configuration (JSON), number of events, counts as counts.lua answers them
-- flags    no-writes
local function run(keys, args)
  local found, refusal = shard.read(keys, '', shard.now(args[1]))
  if refusal then
    return refusal
  end
  local answers = {}
  for index, s in ipairs(found) do
    local other = call('HGET', key_names.other_queue(keys[index]), 'shards')
    answers[index] = s
        and { s.shards, other, call('HGET', keys[index], 'cfg'), numbers.text(s.counters.seq), state_counts.of(s) }
      or { false, other }
  end
  return answers
end
