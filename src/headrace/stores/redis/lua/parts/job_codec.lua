-- Job codec: jobs and deliveries as packed text. What changes is cut out and joined again, the rest is never decoded.
-- packing.py packs and reads the same in Python.
--
-- body      head, then tail; positions count from 1, sizes are in bytes
-- head      1 enqueued_at 6 · 7 run_at 6 · 13 attempts 4 · 17 stalls 4 · 21 size of the head 2 · 23 priority 1 (255:
--           the queue's) · 24 bit mask of the policy fields that are set 1 · 25 size of the kind 2 · 27 policy fields,
--           6 each · kind · tag
-- tail      size of the payload 4 · size of the headers 2 · payload · headers · error
-- error     empty, or: failed_at 6 · size of the class 2 · class · message
-- delivery  cancel requested, '0' or '1' · claimed_at 6 · token · \0 · worker · \0 · head of the body, so that a settle
--           need not fetch the body

local job_codec = {}

local POLICY_BITS = {
  timeout_ms = 1,
  max_attempts = 2,
  max_stalls = 4,
  backoff_ms = 8,
  backoff_ms_max = 16,
  result_ttl_ms = 32,
  expires_at_ms = 64,
}
local FIELDS_AT = 27
local NO_COUNTS = '\0\0\0\0\0\0\0\0'
job_codec.NO_COUNTS = NO_COUNTS

local SET_BITS = {}
for mask = 0, 127 do
  local left, bits = mask, 0
  while left > 0 do
    bits = bits + left % 2
    left = (left - left % 2) / 2
  end
  SET_BITS[mask] = bits
end

function job_codec.enqueued_at(packed)
  return (struct_unpack('>I6', packed))
end

function job_codec.run_at(packed)
  return (struct_unpack('>I6', packed, 7))
end

-- Since when the job could have been claimed.
function job_codec.due_since(packed)
  local enqueued_at, run_at = struct_unpack('>I6I6', packed)
  return enqueued_at > run_at and enqueued_at or run_at
end

function job_codec.counts(packed)
  local attempts, stalls = struct_unpack('>I4I4', packed, 13)
  return attempts, stalls
end

function job_codec.head_size(packed)
  local high, low = byte(packed, 21, 22)
  return high * 256 + low
end

function job_codec.priority(packed, cfg)
  local own = byte(packed, 23)
  return own == 255 and cfg.priority or own
end

-- A policy field that the job sets for itself; nil where the queue's value holds.
function job_codec.policy(packed, field)
  local mask, bit = byte(packed, 24), POLICY_BITS[field]
  if bit_and(mask, bit) == 0 then
    return nil
  end
  return (struct_unpack('>I6', packed, FIELDS_AT + 6 * SET_BITS[bit_and(mask, bit - 1)]))
end

-- The value of a policy field: the job's own, else the queue's.
function job_codec.policy_in_force(packed, field, cfg)
  return job_codec.policy(packed, field) or cfg[field]
end

function job_codec.is_expired(packed, now)
  return byte(packed, 24) >= 64 and now > job_codec.policy(packed, 'expires_at_ms')
end

function job_codec.kind_and_tag(packed)
  local mask, high, low = byte(packed, 24, 26)
  local at = FIELDS_AT + 6 * SET_BITS[mask]
  local size = high * 256 + low
  return sub(packed, at, at + size - 1), sub(packed, at + size, job_codec.head_size(packed))
end

function job_codec.payload_bytes(packed)
  return (struct_unpack('>I4', packed, job_codec.head_size(packed) + 1))
end

function job_codec.payload(packed)
  local at = job_codec.head_size(packed)
  local size = struct_unpack('>I4', packed, at + 1)
  return sub(packed, at + 7, at + 6 + size)
end

-- The same body with an empty payload.
function job_codec.without_payload(packed)
  local at = job_codec.head_size(packed)
  local size = struct_unpack('>I4', packed, at + 1)
  return sub(packed, 1, at) .. '\0\0\0\0' .. sub(packed, at + 5, at + 6) .. sub(packed, at + 7 + size)
end

function job_codec.headers(packed)
  local at = job_codec.head_size(packed)
  local payload, headers = struct_unpack('>I4I2', packed, at + 1)
  return sub(packed, at + 7 + payload, at + 6 + payload + headers)
end

-- Where the error starts, if there is one.
local function error_at(packed)
  local at = job_codec.head_size(packed)
  local payload, headers = struct_unpack('>I4I2', packed, at + 1)
  return at + 7 + payload + headers
end

-- When the job failed last, and the class and message of that error; nil when it never failed.
function job_codec.error(packed)
  local at = error_at(packed)
  if at > #packed then
    return nil
  end
  local failed_at, size = struct_unpack('>I6I2', packed, at)
  return failed_at, sub(packed, at + 8, at + 7 + size), sub(packed, at + 8 + size)
end

function job_codec.head(packed)
  return sub(packed, 1, job_codec.head_size(packed))
end

function job_codec.with_run_at(packed, run_at)
  return sub(packed, 1, 6) .. struct_pack('>I6', run_at) .. sub(packed, 13)
end

-- The head with more attempts and stalls.
function job_codec.with_counts(head, attempts, stalls)
  local old_attempts, old_stalls = job_codec.counts(head)
  return sub(head, 1, 12) .. struct_pack('>I4I4', old_attempts + attempts, old_stalls + stalls) .. sub(head, 21)
end

-- The body with more attempts and stalls, and with this error.
function job_codec.with_failure(packed, attempts, stalls, now, class, message)
  local counted = job_codec.with_counts(packed, attempts, stalls)
  return sub(counted, 1, error_at(packed) - 1) .. struct_pack('>I6I2', now, #class) .. class .. message
end

function job_codec.without_counts(packed)
  return sub(packed, 1, 12) .. NO_COUNTS .. sub(packed, 21, error_at(packed) - 1)
end

-- The policy of the body `above` on top of that of `below`: priority, mask of the fields that are set, their values.
local function policy_over(above, below)
  local priority = sub(above, 23, 23)
  if priority == '\255' then
    priority = sub(below, 23, 23)
  end
  local mask_above, mask_below = byte(above, 24), byte(below, 24)
  if mask_above == 0 then
    return priority, mask_below, sub(below, FIELDS_AT, FIELDS_AT - 1 + 6 * SET_BITS[mask_below])
  end
  local mask, fields, bit = 0, {}, 1
  while bit <= 64 do
    local from = bit_and(mask_above, bit) > 0 and above or bit_and(mask_below, bit) > 0 and below
    if from then
      local at = FIELDS_AT + 6 * SET_BITS[bit_and(byte(from, 24), bit - 1)]
      fields[#fields + 1] = sub(from, at, at + 5)
      mask = mask + bit
    end
    bit = bit * 2
  end
  return priority, mask, concat(fields)
end

local function join_body(times_and_counts, priority, mask, fields, kind, tag, tail)
  local size = FIELDS_AT - 1 + #fields + #kind + #tag
  return times_and_counts
    .. struct_pack('>I2', size)
    .. priority
    .. string.char(mask)
    .. struct_pack('>I2', #kind)
    .. fields
    .. kind
    .. tag
    .. tail
end

-- The body after an enqueue of a known id: `new` on top of `old`, which keeps its enqueued_at. The flags say what to
-- update.
function job_codec.merged(old, new, run_at, update_payload, update_policy, reset_counts)
  local work = update_payload and new or old
  local priority, mask, fields
  if update_policy then
    priority, mask, fields = policy_over(new, old)
  else
    priority, mask, fields = sub(old, 23, 23), byte(old, 24), nil
    fields = sub(old, FIELDS_AT, FIELDS_AT - 1 + 6 * SET_BITS[mask])
  end
  local kind, tag = job_codec.kind_and_tag(work)
  local tail = sub(work, job_codec.head_size(work) + 1, error_at(work) - 1)
  local start = sub(old, 1, 6) .. struct_pack('>I6', run_at)
  if reset_counts then
    return join_body(start .. NO_COUNTS, priority, mask, fields, kind, tag, tail)
  end
  return join_body(start .. sub(old, 13, 20), priority, mask, fields, kind, tag, tail .. sub(old, error_at(old)))
end

function job_codec.without_expiry(packed)
  local mask = bit_and(byte(packed, 24), 63)
  local fields = sub(packed, FIELDS_AT, FIELDS_AT - 1 + 6 * SET_BITS[mask])
  local kind, tag = job_codec.kind_and_tag(packed)
  local tail = sub(packed, job_codec.head_size(packed) + 1)
  return join_body(sub(packed, 1, 20), sub(packed, 23, 23), mask, fields, kind, tag, tail)
end

-- A new body without a policy, for jobs that the store itself enqueues.
function job_codec.new(now, kind, tag, payload, headers)
  local tail = struct_pack('>I4I2', #payload, #headers) .. payload .. headers
  return join_body(struct_pack('>I6I6', now, now) .. NO_COUNTS, '\255', 0, '', kind, tag, tail)
end

-- The fields of a packed delivery.
function job_codec.delivery(packed)
  local token_end = find(packed, '\0', 8, true)
  local worker_end = find(packed, '\0', token_end + 1, true)
  return {
    worker = sub(packed, token_end + 1, worker_end - 1),
    fence = tonumber(string.match(sub(packed, 8, token_end - 1), '%d+$')),
    nonce = string.match(sub(packed, 8, token_end - 1), '^(.*)%.%d+$'),
    claimed_at = struct_unpack('>I6', packed, 2),
    is_cancel_requested = byte(packed) == 49,
    head = sub(packed, worker_end + 1),
  }
end

return job_codec
