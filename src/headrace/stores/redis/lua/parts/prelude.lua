-- Names: the keys of a shard as keys.py has them, and Lua's own functions, which a library cannot see while it is loaded.

local call, unpack, concat, sort, byte, sub, find, format, floor, pack, cut, band

-- Every operation starts with this, through shard.now or shard.open.
local function begin()
  if call then
    return
  end
  call = redis.call
  unpack, concat, sort = _G.unpack, table.concat, table.sort
  byte, sub, find, format = string.byte, string.sub, string.find, string.format
  floor, pack, cut, band = math.floor, struct.pack, struct.unpack, bit.band
end

-- A part of a list; unpack would fail on a claim over thousands of shards.
local function slice(list, first, last)
  local part = {}
  for i = first, last do
    part[i - first + 1] = list[i]
  end
  return part
end

local LIMITS = {
  batch = 1000,           -- values of one command; unpack fails beyond some thousands
  claim_bytes = 4194304,
  repairs = 100,
  promotions = 1000,
  expiries = 100,
  sweep = 1000,
  trim = 4,
  worker_seen_ms = 10000,
  worker_keep_ms = 86400000,
  consumer_silent_ms = 604800000,
  fence_jump = 1048576,
  quarantine = 1000,
  lease_ms = 30000,       -- of a lease that had lost its end
  cached = 4096,          -- names and configurations that are remembered between calls
  evictions = 2000,       -- these five as in limits.py
  changes_trim = 4000,
  changes_slack = 64,
  page_bytes = 4194304,
  rank_chars = 128,
  rerank = 500,
}

local keyed = {}

local SUFFIXES = {
  'm', 'b', 'r', 'l', 'x', 'a', 't', 'k', 'kx', 'o', 'ol', 'op', 'w', 'ws', 'd', 'dn', 'di', 'j', 'jc', 'q',
}

local known_names, known_names_count = {}, 0

-- The names of all keys of the shard whose m key this is, with `prefix`, which is also the channel of its wake-ups, `ends`,
-- the channel on which ends of jobs are told, `is_fail_queue` and the main queue's m key.
function keyed.of(key)
  local found = known_names[key]
  if found then
    return found
  end
  local prefix = sub(key, 1, -2)
  found = { prefix = prefix, is_fail_queue = sub(prefix, -4) == '}:f:' }
  for _, suffix in ipairs(SUFFIXES) do
    found[suffix] = prefix .. suffix
  end
  found.ends = prefix .. 'e'
  found.main_queue = found.is_fail_queue and sub(prefix, 1, -3) .. 'm' or prefix .. 'f:m'
  if known_names_count >= LIMITS.cached then
    known_names, known_names_count = {}, 0
  end
  known_names[key] = found
  known_names_count = known_names_count + 1
  return found
end

-- The m key of the fail queue of a queue, or of the queue of a fail queue.
function keyed.main_queue(key)
  begin()
  return keyed.of(key).main_queue
end
