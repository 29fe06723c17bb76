-- Bodies: a record packed so that what changes is cut and joined, never decoded. packing.py says the same in Python.
--
-- head  1 enqueued_at 6 · 7 run_at 6 · 13 attempts 4 · 17 stalls 4 · 21 size of the head 2 · 23 priority 1 (255: the
--       queue's) · 24 policy fields that are set 1 · 25 size of the kind 2 · 27 policy fields, 6 each · kind · tag
-- tail  size of the payload 4 · size of the headers 2 · payload · headers · error
-- error nothing, or: failed_at 6 · size of the class 2 · class · message
--
-- A delivery (in `a`): asked to stop '0' or '1' · claimed_at 6 · token · \0 · worker · \0 · head of the body, so that a
-- settle need not fetch the body.

local body = {}

local POLICY = {
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

local SET_BITS = {}
for mask = 0, 127 do
  local left, bits = mask, 0
  while left > 0 do
    bits = bits + left % 2
    left = (left - left % 2) / 2
  end
  SET_BITS[mask] = bits
end

local LAST_DIGITS = {}
for number = 0, 999 do
  LAST_DIGITS[number] = (number < 10 and '00' or number < 100 and '0' or '') .. number
end
local first_digits, first_digits_count = {}, 0

-- A whole number as text. Lua's own conversion loses digits beyond 14 and is slow: counters and times share their first
-- digits with those before them.
function body.text(number)
  local low = number % 1000
  local high = (number - low) / 1000
  if high == 0 then
    return low .. ''
  end
  local digits = first_digits[high]
  if not digits then
    digits = format('%.0f', high)
    if first_digits_count >= LIMITS.cached then
      first_digits, first_digits_count = {}, 0
    end
    first_digits[high] = digits
    first_digits_count = first_digits_count + 1
  end
  return digits .. LAST_DIGITS[low]
end

function body.enqueued_at(packed)
  return (cut('>I6', packed))
end

function body.run_at(packed)
  return (cut('>I6', packed, 7))
end

-- Since when it could have been handed out.
function body.due_since(packed)
  local enqueued_at, run_at = cut('>I6I6', packed)
  return enqueued_at > run_at and enqueued_at or run_at
end

function body.counts(packed)
  local attempts, stalls = cut('>I4I4', packed, 13)
  return attempts, stalls
end

function body.head_size(packed)
  local high, low = byte(packed, 21, 22)
  return high * 256 + low
end

function body.priority(packed, cfg)
  local own = byte(packed, 23)
  return own == 255 and cfg.priority or own
end

-- A policy field that the job sets for itself; nil when it follows the queue.
function body.policy(packed, field)
  local mask, bit = byte(packed, 24), POLICY[field]
  if band(mask, bit) == 0 then
    return nil
  end
  return (cut('>I6', packed, FIELDS_AT + 6 * SET_BITS[band(mask, bit - 1)]))
end

-- A policy field in force.
function body.rule(packed, field, cfg)
  return body.policy(packed, field) or cfg[field]
end

function body.is_expired(packed, now)
  return byte(packed, 24) >= 64 and now > body.policy(packed, 'expires_at_ms')
end

function body.kind_and_tag(packed)
  local mask, high, low = byte(packed, 24, 26)
  local at = FIELDS_AT + 6 * SET_BITS[mask]
  local size = high * 256 + low
  return sub(packed, at, at + size - 1), sub(packed, at + size, body.head_size(packed))
end

function body.payload_bytes(packed)
  return (cut('>I4', packed, body.head_size(packed) + 1))
end

function body.payload(packed)
  local at = body.head_size(packed)
  local size = cut('>I4', packed, at + 1)
  return sub(packed, at + 7, at + 6 + size)
end

function body.headers(packed)
  local at = body.head_size(packed)
  local payload, headers = cut('>I4I2', packed, at + 1)
  return sub(packed, at + 7 + payload, at + 6 + payload + headers)
end

-- Where the error starts, if there is one.
local function error_at(packed)
  local at = body.head_size(packed)
  local payload, headers = cut('>I4I2', packed, at + 1)
  return at + 7 + payload + headers
end

-- When it failed last, and the class and message of that error; nil when it did not.
function body.error(packed)
  local at = error_at(packed)
  if at > #packed then
    return nil
  end
  local failed_at, size = cut('>I6I2', packed, at)
  return failed_at, sub(packed, at + 8, at + 7 + size), sub(packed, at + 8 + size)
end

function body.head(packed)
  return sub(packed, 1, body.head_size(packed))
end

function body.with_run_at(packed, run_at)
  return sub(packed, 1, 6) .. pack('>I6', run_at) .. sub(packed, 13)
end

-- The head after a delivery that counts.
function body.counted(head, attempts, stalls)
  local had, had_stalls = body.counts(head)
  return sub(head, 1, 12) .. pack('>I4I4', had + attempts, had_stalls + stalls) .. sub(head, 21)
end

-- The body after a delivery that counts and left an error.
function body.failed(packed, attempts, stalls, now, class, message)
  local counted = body.counted(packed, attempts, stalls)
  return sub(counted, 1, error_at(packed) - 1) .. pack('>I6I2', now, #class) .. class .. message
end

function body.without_counts(packed)
  return sub(packed, 1, 12) .. NO_COUNTS .. sub(packed, 21, error_at(packed) - 1)
end

-- Everything of a policy, `above` on top of `below`: priority, fields that are set, their values.
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
    local from = band(mask_above, bit) > 0 and above or band(mask_below, bit) > 0 and below
    if from then
      local at = FIELDS_AT + 6 * SET_BITS[band(byte(from, 24), bit - 1)]
      fields[#fields + 1] = sub(from, at, at + 5)
      mask = mask + bit
    end
    bit = bit * 2
  end
  return priority, mask, concat(fields)
end

local function with_head(stamp_and_counts, priority, mask, fields, kind, tag, tail)
  local size = FIELDS_AT - 1 + #fields + #kind + #tag
  return stamp_and_counts
    .. pack('>I2', size)
    .. priority
    .. string.char(mask)
    .. pack('>I2', #kind)
    .. fields
    .. kind
    .. tag
    .. tail
end

-- A body after an enqueue: `new` on top of `old`, which keeps its enqueued_at; steered by what is to be updated.
function body.updated(old, new, run_at, update_payload, update_policy, reset_counts)
  local work = update_payload and new or old
  local priority, mask, fields
  if update_policy then
    priority, mask, fields = policy_over(new, old)
  else
    priority, mask, fields = sub(old, 23, 23), byte(old, 24), nil
    fields = sub(old, FIELDS_AT, FIELDS_AT - 1 + 6 * SET_BITS[mask])
  end
  local kind, tag = body.kind_and_tag(work)
  local tail = sub(work, body.head_size(work) + 1, error_at(work) - 1)
  local start = sub(old, 1, 6) .. pack('>I6', run_at)
  if reset_counts then
    return with_head(start .. NO_COUNTS, priority, mask, fields, kind, tag, tail)
  end
  return with_head(start .. sub(old, 13, 20), priority, mask, fields, kind, tag, tail .. sub(old, error_at(old)))
end

function body.without_expiry(packed)
  local mask = band(byte(packed, 24), 63)
  local fields = sub(packed, FIELDS_AT, FIELDS_AT - 1 + 6 * SET_BITS[mask])
  local kind, tag = body.kind_and_tag(packed)
  local tail = sub(packed, body.head_size(packed) + 1)
  return with_head(sub(packed, 1, 20), sub(packed, 23, 23), mask, fields, kind, tag, tail)
end

-- A body of the store's own making, without a policy.
function body.new(now, kind, tag, payload, headers)
  local tail = pack('>I4I2', #payload, #headers) .. payload .. headers
  return with_head(pack('>I6I6', now, now) .. NO_COUNTS, '\255', 0, '', kind, tag, tail)
end

-- The parts of a delivery: worker, fence, claimed_at, whether it was asked to stop, and the head of its body.
function body.delivery(packed)
  local token_end = find(packed, '\0', 8, true)
  local worker_end = find(packed, '\0', token_end + 1, true)
  return {
    worker = sub(packed, token_end + 1, worker_end - 1),
    fence = tonumber(string.match(sub(packed, 8, token_end - 1), '%d+$')),
    nonce = string.match(sub(packed, 8, token_end - 1), '^(.*)%.%d+$'),
    claimed_at = cut('>I6', packed, 2),
    asked = byte(packed) == 49,
    head = sub(packed, worker_end + 1),
  }
end
