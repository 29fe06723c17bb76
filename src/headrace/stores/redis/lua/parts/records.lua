-- Records: the rows of jobs as reads answer them, and the order of ids.
--
-- uses  chunked, job_codec

local records = {}

-- Whether one id comes before another, by byte; Lua would compare by the server's locale.
function records.is_before(one, other)
  for at = 1, math.min(#one, #other) do
    local left, right = byte(one, at), byte(other, at)
    if left ~= right then
      return left < right
    end
  end
  return #one < #other
end

-- For each of these waiting or active jobs in turn: id, body, order key when ready, delivery, end of its lease, blocked
-- job, each false for none.
function records.of_live(s, ids, bodies, with_payloads)
  local names, flat, n = s.names, {}, 0
  if not with_payloads then
    for i = 1, #ids do
      bodies[i] = bodies[i] and job_codec.without_payload(bodies[i])
    end
  end
  local has_active, has_blocked = call('ZCARD', names.leases) > 0, call('HLEN', names.blocked) > 0
  local order_keys = chunked.get_scores(names.ready, ids)
  local deliveries = has_active and chunked.get_values(names.deliveries, ids) or {}
  local ends = has_active and chunked.get_scores(names.leases, ids) or {}
  local blocked = has_blocked and chunked.get_values(names.blocked, ids) or {}
  for i = 1, #ids do
    flat[n + 1], flat[n + 2], flat[n + 3] = ids[i], bodies[i], order_keys[i]
    flat[n + 4], flat[n + 5], flat[n + 6] = deliveries[i] or false, ends[i] or false, blocked[i] or false
    n = n + 6
  end
  return flat
end

return records
