-- A shard in one call: its counters and configuration as they are read at its start and saved at its end.

local shard = { text = body.text }

local FAIL_QUEUE_CONFIG = '{"version":0,"paused":false,"fail_handler":false,"priority":5,"timeout_ms":0,'
  .. '"max_attempts":100,"max_stalls":3,"backoff_ms":10000,"backoff_ms_max":900000,"result_ttl_ms":0,'
  .. '"idempotency_ttl_ms":86400000,"keep_done_ms":3600000,"keep_done_max":10000,"keep_dead_ms":2592000000,'
  .. '"keep_dead_max":100000,"waiting_max":100000000,"journal_keep_ms":604800000,"journal_keep_max":10000000,'
  .. '"journal_bytes_max":268435456,"journal_payloads":false}'

-- The counters, packed into the field `head` of `m` in this order, since reading and writing them one by one is a sixth of
-- what an empty claim costs; packing.py says the same. Doubles hold them exactly, and are packed three times as fast as
-- bytes are. `en` numbers finished jobs, `done` and `cancelled` count those that are kept, `freed` is 1 once a blocked job has become a
-- job of its own. The last two spare looks: `blocked` counts the blocked jobs, and before `over_at` no finished job's time is over.
local PACKED = '<ddddddddddddddd'
local FIRST = {
  epoch = 1, seq = 0, at = 0, fence = 0, number = 0, dead_letter = 0, first = 1, bytes = 0, oldest = 0, en = 0, done = 0,
  cancelled = 0, freed = 0, blocked = 0, over_at = 0,
}

local LAYOUT_TEXT = '' .. LAYOUT

local server
local known_configs, known_configs_count = {}, 0
local known_abouts, known_abouts_count = {}, 0

-- The instant of a call: the given one, else ('') the server's clock.
function shard.now(given)
  begin()
  if given ~= '' then
    return tonumber(given)
  end
  local time = call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000)
end

-- Names the run of this server: another one may have lost the end of what was written. Not the clock, which would
-- differ between two versions of the library that live side by side.
local function this_server()
  if not server then
    local info = redis.pcall('INFO', 'server')
    server = type(info) == 'string' and string.match(info, 'run_id:(%x+)')
    if not server then
      local time = call('TIME')
      server = time[1] .. '.' .. time[2]
    end
  end
  return server
end
shard.server = this_server

-- The server's clock in microseconds, whatever instant a call was given: what a counter that was lost goes on from.
local function clock_us()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- An epoch after `known` that no other life of what was lost can have: the clock in milliseconds, if that is later.
function shard.next_epoch(known)
  return math.max(known + 1, floor(clock_us() / 1000))
end

-- A fence beyond `known` that no other life of what was lost can have: the clock in microseconds, which deliveries do not
-- outrun; a clock that was put back leaves a wide jump.
local function next_fence(known)
  local now_us = clock_us()
  return now_us > known and now_us or known + LIMITS.fence_jump
end

-- Whether all of a shard may be lost and its name begin anew: the server keeps no append-only file.
local function is_volatile()
  local info = redis.pcall('INFO', 'persistence')
  return type(info) == 'string' and string.find(info, 'aof_enabled:0', 1, true) ~= nil
end

local function config_of(text)
  local found = known_configs[text]
  if not found then
    found = cjson.decode(text)
    if known_configs_count >= LIMITS.cached then
      known_configs, known_configs_count = {}, 0
    end
    known_configs[text] = found
    known_configs_count = known_configs_count + 1
  end
  return found
end
shard.config_of = config_of

-- What `about` says of a shard, which is one field since each one that is read has its price: its layout, the number of
-- shards, the run of the server that wrote last, and the digest of its configuration.
local function about_of(key, text)
  local found = known_abouts[text]
  if not found then
    local layout, shards, vm, digest = string.match(text, '^(%d+) (%d+) (%S+) (%x+)$')
    shard.check_layout(layout or string.match(text, '^%d+'))
    found = { shards = shards, vm = vm, digest = digest, cfg = config_of(call('HGET', key, 'cfg')) }
    if known_abouts_count >= LIMITS.cached then
      known_abouts, known_abouts_count = {}, 0
    end
    known_abouts[text] = found
    known_abouts_count = known_abouts_count + 1
  end
  return found
end

local function step_of(named, head, shards, cfg, now)
  -- All fields that most calls set have their room from the start: a table that grows is built anew.
  return {
    names = named,
    shards = shards,
    head = head,
    cfg = cfg,
    now = now,
    lines = {},
    pieces = 0,
    count = 0,
    kept = nil,
    woke = false,
    B = {}, R = {}, L = {}, X = {}, A = {}, T = {}, -- what becomes of each id: a value to set, false to drop
    packed_head = false, en_before = 0, vm = false, digest = false, awaited = false, worker = false, seen = false,
    by_key = nil, over = nil, handed = nil, leases = nil, deliveries = nil, is_sweeping = nil, has_blocked_jobs = nil,
    lease_end = nil, due = nil, is_drained = nil, ready = nil, ended = nil,
  }
end

-- Refuse what a newer Headrace has written: its keys may mean something else. Nothing is written before.
function shard.check_layout(found)
  if found ~= LAYOUT_TEXT and (tonumber(found) or 0) > LAYOUT then
    error(redis.error_reply('HEADRACE newer_layout ' .. found))
  end
end

-- Refuse what an older Headrace has written; nil where nothing is.
local function check_older(key)
  local layout = call('HGET', key, 'layout')
  if layout then
    shard.check_layout(layout)
    error(redis.error_reply('HEADRACE older_layout ' .. layout))
  end
end

-- One shard as it is; nil when it is not there, and the number that it or its main queue knows when `shards` is another
-- ('' is none in particular).
function shard.find(key, shards, now)
  begin()
  local named = keyed.of(key)
  local found = call('HMGET', key, 'about', 'head', 'awaited')
  local about = found[1] and about_of(key, found[1]) or check_older(key)
  local known = about and about.shards or call('HGET', named.main_queue, 'shards')
  if known and shards ~= '' and known ~= shards then
    return nil, known
  end
  if not about then
    return nil
  end
  local epoch, seq, at, fence, number, dead_letter, first, bytes, oldest, en, done, cancelled, freed, blocked, over_at =
    cut(PACKED, found[2])
  local head = {
    epoch = epoch, seq = seq, at = at, fence = fence, number = number, dead_letter = dead_letter, first = first, bytes = bytes,
    oldest = oldest, en = en, done = done, cancelled = cancelled, freed = freed, blocked = blocked, over_at = over_at,
  }
  local s = step_of(named, head, about.shards, about.cfg, now)
  s.packed_head, s.en_before, s.vm, s.digest = found[2], en, about.vm, about.digest
  s.awaited = found[3] -- until when somebody waits for the end of a job, false for nobody
  return s
end

-- The shards of a call for those who only look, false for each that is not there; nil and an error reply when one is of
-- a queue that is cut into another number of shards. `shards` is that number, or a list with one for each key. A shard
-- is found once, however often it is named: two copies of its counters would write over each other.
function shard.look(keys, shards, now)
  local found, by_key = {}, {}
  for i = 1, #keys do
    local wanted = type(shards) == 'table' and shards[i] or shards
    local s, known = by_key[keys[i]], nil
    if not s then
      s, known = shard.find(keys[i], wanted, now)
    elseif wanted ~= '' and wanted ~= s.shards then
      known = s.shards
    end
    if known then
      local which = type(shards) == 'table' and ' ' .. i or ''
      return nil, redis.error_reply('HEADRACE wrong_shards ' .. known .. which)
    end
    found[i] = s or false
    by_key[keys[i]] = s
  end
  return found
end

-- Notice that the server is another one than the last time, or was started again.
function shard.meet(s)
  if s.vm ~= this_server() then
    local head = s.head
    head.epoch, head.fence, s.is_moved = shard.next_epoch(head.epoch), next_fence(head.fence), true
    shard.save(s)
  end
end

-- The same for those who write.
function shard.open(keys, shards, now)
  local found, refusal = shard.look(keys, shards, now)
  if refusal then
    return nil, refusal
  end
  for i = 1, #keys do
    if found[i] then
      shard.meet(found[i])
    end
  end
  return found
end

-- A shard that is not there yet; nothing is written before it is saved.
function shard.new(key, shards, config_text, now)
  begin()
  local head = {}
  for name, value in pairs(FIRST) do
    head[name] = value
  end
  local s = step_of(keyed.of(key), head, shards, config_of(config_text), now)
  if is_volatile() then
    head.epoch, head.fence = shard.next_epoch(head.epoch), next_fence(head.fence)
  end
  s.is_moved, s.new_config, s.en_before = true, config_text, 0
  return s
end

-- A step that was written and is to decide once more: what it knows of its counters still holds.
function shard.renew(s)
  s.by_key, s.is_shared, s.made, s.has_handed_on, s.has_blocked_jobs = nil, nil, nil, nil, nil
end

function shard.make(key, shards, config_text)
  shard.save(shard.new(key, shards, config_text))
end

-- Let shards that decide together and are written together know each other: a death on one must not open a second copy
-- of its fail queue.
function shard.join(found)
  local by_key = {}
  for _, s in ipairs(found) do
    if s then
      by_key[s.names.m], s.by_key = s, by_key
    end
  end
end

-- The step on the fail queue's shard that is taken together with this one: the one that it was joined with, if any.
function shard.fail_queue(s)
  if not s.fail_queue then
    local key = s.names.main_queue
    local own = s.by_key and s.by_key[key]
    local found = own or shard.find(key, '', s.now)
    if own then
      s.is_shared = true
    elseif found then
      shard.meet(found)
    else
      found = shard.new(key, s.shards, FAIL_QUEUE_CONFIG, s.now)
      s.made = true
    end
    s.fail_queue = found
  end
  return s.fail_queue
end

-- Write the counters that have changed.
function shard.save(s)
  local head, changed, n = s.head, {}, 0
  local packed = pack(PACKED, head.epoch, head.seq, head.at, head.fence, head.number, head.dead_letter, head.first,
    head.bytes, head.oldest, head.en, head.done, head.cancelled, head.freed, head.blocked, head.over_at)
  if packed ~= s.packed_head then
    changed[1], changed[2], n = 'head', packed, 2
    s.packed_head = packed
  end
  s.en_before = head.en
  if s.is_moved or s.new_config then
    if s.new_config then
      s.digest = redis.sha1hex(s.new_config)
      changed[n + 1], changed[n + 2], changed[n + 3], changed[n + 4] = 'shards', s.shards, 'cfg', s.new_config
      n = n + 4
    end
    s.vm = this_server()
    changed[n + 1], changed[n + 2] = 'about', concat({ LAYOUT, s.shards, s.vm, s.digest }, ' ')
    n = n + 2
    s.is_moved, s.new_config = false, nil
  end
  if n > 0 then
    call('HSET', s.names.m, unpack(changed, 1, n))
  end
end
