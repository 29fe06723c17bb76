-- Key names: the names of a shard's keys. keys.py builds the same names and says what each key holds.

local key_names = {}

local SUFFIXES = {
  meta = 'm',
  bodies = 'b',
  ready = 'r',
  later = 'l',
  leases = 'x',
  deliveries = 'a',
  blocked = 't',
  idempotency_keys = 'k',
  idempotency_ends = 'kx',
  finished = 'o',
  finished_unpinned = 'ol',
  finished_pinned = 'op',
  finished_pinned_order = 'oq',
  workers = 'w',
  workers_seen = 'ws',
  dead_letters = 'd',
  dead_letter_numbers = 'dn',
  dead_letter_ids = 'di',
  journal = 'j',
  consumers = 'jc',
  quarantine = 'q',
}

local cache, cached_count = {}, 0

-- All names of the shard with this `m` key, and:
--   channel, end_channel  where workers are woken, and where ends of jobs are published
--   is_fail_queue         whether the shard belongs to a fail queue
--   other_queue           the `m` key of its fail queue; of a fail queue, the `m` key of the main queue
function key_names.of(key)
  local found = cache[key]
  if found then
    return found
  end
  local prefix = sub(key, 1, -2)
  found = { channel = prefix, end_channel = prefix .. 'e', is_fail_queue = sub(prefix, -4) == '}:f:' }
  for name, suffix in pairs(SUFFIXES) do
    found[name] = prefix .. suffix
  end
  found.other_queue = found.is_fail_queue and sub(prefix, 1, -3) .. 'm' or prefix .. 'f:m'
  if cached_count >= LIMITS.function_cache_max then
    cache, cached_count = {}, 0
  end
  cache[key] = found
  cached_count = cached_count + 1
  return found
end

-- The `m` key of a queue's fail queue, or of a fail queue's main queue.
function key_names.other_queue(key)
  load_globals()
  return key_names.of(key).other_queue
end

return key_names
