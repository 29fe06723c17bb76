-- Shard: the state of one shard in one call, a "step" `s`: its counters and configuration as they are read at the
-- start, and all that the call decides until step.commit writes it.
--
-- uses  key_names

local shard = {}

-- The counters, packed into the field `head` of `m` in this order; packing.py reads the same. One packed field, since
-- reading and writing single ones takes a sixth of an empty claim; doubles, since they are exact and packed three times
-- as fast as bytes.
--
-- epoch            rises when the server may have lost what was written
-- seq, at          number and instant of the last journal event
-- fence            of the last delivery
-- number           of the last order key
-- dead_letter      number of the last dead letter
-- first, oldest    number of the first journal event that is kept, and its instant
-- bytes            of the journal
-- finished_number  of the last finished job
-- done, cancelled  how many finished jobs are kept
-- freed            1 once a blocked job has become a job of its own
-- blocked          how many jobs are blocked; spares a look at the hash
-- over_at          before this instant no finished job expires; spares a look at them
local PACKED = '<ddddddddddddddd'
local NEW_COUNTERS = {
  epoch = 1, seq = 0, at = 0, fence = 0, number = 0, dead_letter = 0, first = 1, bytes = 0, oldest = 0,
  finished_number = 0, done = 0, cancelled = 0, freed = 0, blocked = 0, over_at = 0,
}
shard.PACKED = PACKED

local LAYOUT_TEXT = '' .. LAYOUT

local server_id
local configs, configs_count = {}, 0
local abouts, abouts_count = {}, 0

-- The instant of a call: `now_ms`, or the server's clock where that is ''.
function shard.now(now_ms)
  load_globals()
  if now_ms ~= '' then
    return tonumber(now_ms)
  end
  local time = call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000)
end

-- The id of this run of the server: after a restart or a failover, the end of what was written may be lost. Not the
-- clock, which two versions of the library would read at different times.
local function this_server_id()
  if not server_id then
    local info = redis.pcall('INFO', 'server')
    server_id = type(info) == 'string' and string.match(info, 'run_id:(%x+)')
    if not server_id then
      local time = call('TIME')
      server_id = time[1] .. '.' .. time[2]
    end
  end
  return server_id
end
shard.server_id = this_server_id

-- The server's clock in microseconds, also where a call has another instant: lost counters continue from it.
local function clock_us()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- An epoch after `known` that no lost epoch can equal: the clock in milliseconds, if that is later.
function shard.next_epoch(known)
  return math.max(known + 1, floor(clock_us() / 1000))
end

-- A fence after `known` that no lost fence can equal: the clock in microseconds, which deliveries cannot outrun; where
-- the clock was put back, a wide jump.
local function next_fence(known)
  local now_us = clock_us()
  return now_us > known and now_us or known + LIMITS.fence_jump
end

-- Whether the server keeps no append-only file, so a whole shard may be lost and created again under its name.
local function is_volatile()
  local info = redis.pcall('INFO', 'persistence')
  return type(info) == 'string' and string.find(info, 'aof_enabled:0', 1, true) ~= nil
end

local function parse_config(text)
  local found = configs[text]
  if not found then
    found = cjson.decode(text)
    if configs_count >= LIMITS.function_cache_max then
      configs, configs_count = {}, 0
    end
    configs[text] = found
    configs_count = configs_count + 1
  end
  return found
end
shard.parse_config = parse_config

-- The field `about` of a shard: its layout, the number of shards, the id of the server that wrote last, and the digest
-- of its configuration. One field, because each read field costs time.
local function read_about(key, text)
  local found = abouts[text]
  if not found then
    local layout, shards, server, digest = string.match(text, '^(%d+) (%d+) (%S+) (%x+)$')
    shard.check_layout(layout or string.match(text, '^%d+'))
    found = { shards = shards, server_id = server, digest = digest, cfg = parse_config(call('HGET', key, 'cfg')) }
    if abouts_count >= LIMITS.function_cache_max then
      abouts, abouts_count = {}, 0
    end
    abouts[text] = found
    abouts_count = abouts_count + 1
  end
  return found
end
shard.read_about = read_about

-- A new step. All fields that most calls set have their room from the start: a table that grows is built anew.
local function new_step(names, counters, shards, cfg, now)
  return {
    names = names,
    shards = shards,
    counters = counters,
    cfg = cfg,
    now = now,
    lines = {}, -- pieces of the journal lines of this call
    piece_count = 0,
    line_count = 0,
    packed_lines = nil,
    has_new_work = false,
    bodies = {}, ready = {}, later = {}, leases = {}, deliveries = {}, blocked = {}, -- see live_jobs.lua
    packed_counters = false, finished_number_before = 0, server_id = false, digest = false, awaited_until = false,
    worker = false, worker_seen = false, steps_by_key = nil, done_ids = nil, claimed_ids = nil, claimed_leases = nil,
    claimed_deliveries = nil, must_sweep = nil, has_blocked_jobs = nil, first_lease_end = nil, first_due = nil,
    is_drained = nil, ready_count = nil, finished = nil,
  }
end

-- Refuse a layout that a newer Headrace has written: its keys may mean something else. Nothing is written before.
function shard.check_layout(found)
  if found ~= LAYOUT_TEXT and (tonumber(found) or 0) > LAYOUT then
    error(redis.error_reply('HEADRACE newer_layout ' .. found))
  end
end

-- Refuse a layout that an older Headrace has written; nil where nothing is stored.
local function check_older(key)
  local layout = call('HGET', key, 'layout')
  if layout then
    shard.check_layout(layout)
    error(redis.error_reply('HEADRACE older_layout ' .. layout))
  end
end

-- The step of a shard, nil when the shard does not exist. When `shards` is not the queue's number of shards ('' skips
-- that check): nil and the number that the shard or its main queue has stored.
function shard.load(key, shards, now)
  load_globals()
  local names = key_names.of(key)
  local found = call('HMGET', key, 'about', 'head', 'awaited')
  local about = found[1] and read_about(key, found[1]) or check_older(key)
  local known = about and about.shards or call('HGET', names.other_queue, 'shards')
  if known and shards ~= '' and known ~= shards then
    return nil, known
  end
  if not about then
    return nil
  end
  local epoch, seq, at, fence, number, dead_letter, first, bytes, oldest, finished_number, done, cancelled, freed,
    blocked, over_at = struct_unpack(PACKED, found[2])
  local counters = {
    epoch = epoch, seq = seq, at = at, fence = fence, number = number, dead_letter = dead_letter, first = first,
    bytes = bytes, oldest = oldest, finished_number = finished_number, done = done, cancelled = cancelled,
    freed = freed, blocked = blocked, over_at = over_at,
  }
  local s = new_step(names, counters, about.shards, about.cfg, now)
  s.packed_counters, s.finished_number_before = found[2], finished_number
  s.server_id, s.digest = about.server_id, about.digest
  s.awaited_until = found[3] -- until when ends of jobs are published, false for not at all
  return s
end

-- The steps of a call that only reads, false for each shard that does not exist; nil and an error reply when a queue
-- has another number of shards. `shards` is that number, or a list with one for each key. A key that is named twice has
-- one step: two copies of its counters would overwrite each other.
function shard.read(keys, shards, now)
  local found, by_key = {}, {}
  for i = 1, #keys do
    local wanted = type(shards) == 'table' and shards[i] or shards
    local s, known = by_key[keys[i]], nil
    if not s then
      s, known = shard.load(keys[i], wanted, now)
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

-- Raise epoch and fence when another server has taken over or the server was restarted since the last write.
function shard.notice_restart(s)
  if s.server_id ~= this_server_id() then
    local counters = s.counters
    counters.epoch, counters.fence = shard.next_epoch(counters.epoch), next_fence(counters.fence)
    s.has_new_server = true
    shard.save(s)
  end
end

-- The steps of a call that writes; otherwise like shard.read.
function shard.open(keys, shards, now)
  local found, refusal = shard.read(keys, shards, now)
  if refusal then
    return nil, refusal
  end
  for i = 1, #keys do
    if found[i] then
      shard.notice_restart(found[i])
    end
  end
  return found
end

-- The step of a new shard; nothing is written before shard.save.
function shard.new(key, shards, config_text, now)
  load_globals()
  local counters = {}
  for name, value in pairs(NEW_COUNTERS) do
    counters[name] = value
  end
  local s = new_step(key_names.of(key), counters, shards, parse_config(config_text), now)
  if is_volatile() then
    counters.epoch, counters.fence = shard.next_epoch(counters.epoch), next_fence(counters.fence)
  end
  s.has_new_server, s.new_config, s.finished_number_before = true, config_text, 0
  return s
end

-- Let a step that was written decide once more; its counters still hold.
function shard.reset_decisions(s)
  s.steps_by_key, s.is_shared, s.has_blocked_jobs = nil, nil, nil
  s.has_created_fail_queue, s.has_added_fail_job = nil, nil
end

function shard.create(key, shards, config_text)
  shard.save(shard.new(key, shards, config_text))
end

-- Let steps that are written together find each other: a death on one must not load a second step of its fail queue.
function shard.link(found)
  local by_key = {}
  for _, s in ipairs(found) do
    if s then
      by_key[s.names.meta], s.steps_by_key = s, by_key
    end
  end
end

-- The step of the fail queue's shard that is written together with this one; the linked one, if any.
function shard.fail_queue(s)
  if not s.fail_queue then
    local key = s.names.other_queue
    local own = s.steps_by_key and s.steps_by_key[key]
    local found = own or shard.load(key, '', s.now)
    if own then
      s.is_shared = true
    elseif found then
      shard.notice_restart(found)
    else
      found = shard.new(key, s.shards, FAIL_QUEUE_CONFIG, s.now)
      s.has_created_fail_queue = true
    end
    s.fail_queue = found
  end
  return s.fail_queue
end

-- Write the counters that have changed.
function shard.save(s)
  local counters, changed, n = s.counters, {}, 0
  local packed = struct_pack(PACKED, counters.epoch, counters.seq, counters.at, counters.fence, counters.number,
    counters.dead_letter, counters.first, counters.bytes, counters.oldest, counters.finished_number, counters.done,
    counters.cancelled, counters.freed, counters.blocked, counters.over_at)
  if packed ~= s.packed_counters then
    changed[1], changed[2], n = 'head', packed, 2
    s.packed_counters = packed
  end
  s.finished_number_before = counters.finished_number
  if s.has_new_server or s.new_config then
    if s.new_config then
      s.digest = redis.sha1hex(s.new_config)
      changed[n + 1], changed[n + 2], changed[n + 3], changed[n + 4] = 'shards', s.shards, 'cfg', s.new_config
      n = n + 4
    end
    s.server_id = this_server_id()
    changed[n + 1], changed[n + 2] = 'about', concat({ LAYOUT, s.shards, s.server_id, s.digest }, ' ')
    n = n + 2
    s.has_new_server, s.new_config = false, nil
  end
  if n > 0 then
    call('HSET', s.names.meta, unpack(changed, 1, n))
  end
end

return shard
