-- Give shards a configuration. A shard keeps one that is newer, so all end alike whatever the order of the calls.
--
-- keys     the `m` keys of shards of one queue; the first one decides when a version is expected
-- args     number of shards, now_ms or '', version of the configuration, configuration (JSON), version that the first
--          shard must have or ''; then 0 per shard
-- answers  per shard: 1 when it took the configuration, 0 when it keeps its own, nil when it is not there
-- flags    allow-oom
local function take(s, version, text)
  local new = shard.config_of(text)
  local is_resumed = s.cfg.paused and not new.paused
  journal.note(s, '{"event":"configured","version":' .. version .. '}')
  journal.write(s)
  s.cfg, s.new_config = new, text
  journal.trim(s, LIMITS.trim)
  shard.save(s)
  if is_resumed then
    telling.publish(s.names.prefix, '')
  end
end

local function run(keys, args)
  local found, refused = shard.open(keys, args[1], shard.now(args[2]))
  if refused then
    return refused
  end
  local first, expected, answers = found[1], tonumber(args[5]), {}
  local is_late = expected and not (first and first.cfg.version == expected)
  for index, s in ipairs(found) do
    local is_newer = s and s.cfg.version < tonumber(args[3]) and not is_late
    if is_newer then
      take(s, args[3], args[4])
    end
    answers[index] = s and (is_newer and 1 or 0)
  end
  return answers
end
