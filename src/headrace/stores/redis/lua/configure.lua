-- Give shards a configuration. A shard keeps a newer one, so all shards agree in the end, in whatever order calls
-- arrive.
--
-- uses     journal, shard, notify
-- keys     the `m` keys of shards of one queue; the first one decides when a version is expected
-- args     number of shards, now_ms or '', version of the configuration, configuration (JSON), version that the first
--          shard must have or ''; then 0 per shard
-- answers  per shard: 1 where it took the configuration, 0 where it keeps its own, nil where it does not exist
-- flags    allow-oom
local function apply(s, version, text)
  local new = shard.parse_config(text)
  local is_resumed = s.cfg.paused and not new.paused
  journal.add_line(s, '{"event":"configured","version":' .. version .. '}')
  journal.write(s)
  s.cfg, s.new_config = new, text
  journal.trim(s, LIMITS.journal_trim_per_call_max)
  shard.save(s)
  if is_resumed then
    notify.publish(s.names.channel, '')
  end
end

local function run(keys, args)
  local found, refusal = shard.open(keys, args[1], shard.now(args[2]))
  if refusal then
    return refusal
  end
  local first, expected, answers = found[1], tonumber(args[5]), {}
  local is_late = expected and not (first and first.cfg.version == expected)
  for index, s in ipairs(found) do
    local is_newer = s and s.cfg.version < tonumber(args[3]) and not is_late
    if is_newer then
      apply(s, args[3], args[4])
    end
    answers[index] = s and (is_newer and 1 or 0)
  end
  return answers
end
