-- Mending: what does not fit together in a shard is found part by part, and put right.
--
-- A walk goes through the scans at the end, one key each. Every look names a flaw, an id, and how it is healed.

local mending = {}

local function look_at_bodies(s, ids, _, add)
  local named = s.names
  local ready, later, leases = waiting.scores(named.r, ids), waiting.scores(named.l, ids), waiting.scores(named.x, ids)
  local deliveries = waiting.get_all(named.a, ids)
  for i, id in ipairs(ids) do
    local waits, runs = ready[i] or later[i], deliveries[i] or leases[i]
    if waits and runs or ready[i] and later[i] then
      add('doubled', id, healing.doubled)
    elseif not waits and not runs then
      add('unindexed', id, healing.unindexed)
    elseif runs and not leases[i] then
      add('unleased', id, healing.unleased)
    elseif runs and not deliveries[i] then
      add('undelivered', id, healing.undelivered)
    end
  end
end

local function look_for_bodies(s, ids, _, add)
  for _, id in ipairs(ids) do
    if not healing.has_body(s, id) then
      add('bodiless', id, healing.bodiless)
    end
  end
end

local function look_at_blocked_jobs(s, ids, _, add)
  for i, delivery in ipairs(waiting.get_all(s.names.a, ids)) do
    if not delivery then
      add('stranded', ids[i], healing.stranded)
    end
  end
end

local function look_at_dead_letters(s, numbers, packed, add)
  local listed = waiting.scores(s.names.dn, numbers)
  for i, number in ipairs(numbers) do
    local id_size = cut('>I2', packed[i], 14)
    local member = sub(packed[i], 20, 19 + id_size) .. '\0' .. string.rep('0', 16 - #number) .. number
    if not (listed[i] and call('ZSCORE', s.names.di, member)) then
      add('unlisted', number, function()
        healing.afterwards(s, 'ZADD', s.names.dn, number, number)
        healing.afterwards(s, 'ZADD', s.names.di, 0, member)
      end)
    end
  end
end

local function look_for_dead_letters(s, numbers, _, add)
  for _, number in ipairs(numbers) do
    if call('HEXISTS', s.names.d, number) == 0 then
      add('bodiless', number, function()
        healing.afterwards(s, 'ZREM', s.names.dn, number)
      end)
    end
  end
end

-- Who lists dead letters by id knows whose dead letter is gone, so that the journal can say it.
local function look_for_dead_letters_of_ids(s, members, _, add)
  for _, member in ipairs(members) do
    local at = find(member, '\0', 1, true)
    local id, number = sub(member, 1, at - 1), body.text(tonumber(sub(member, at + 1)))
    if call('HEXISTS', s.names.d, number) == 0 then
      add('bodiless', number, function()
        healing.afterwards(s, 'ZREM', s.names.di, member)
        journal.note(s, '{"event":"purged","id":' .. json.quote(id) .. ',"dead_letter":' .. number .. '}')
      end)
    end
  end
end

-- How many are done and how many cancelled among the finished jobs: exact while these are few, else as many as there are.
local function count_finished_jobs(s)
  local size, head = call('HLEN', s.names.o), s.head
  if size > LIMITS.sweep then
    local cancelled = math.min(head.cancelled, size)
    return size - cancelled, cancelled
  end
  local done = 0
  for _, packed in ipairs(call('HVALS', s.names.o)) do
    done = done + (finished_job.state(packed) == 'done' and 1 or 0)
  end
  return done, size - done
end

local function look_at_counts(s, is_healing, said)
  local head = s.head
  if is_healing then
    head.blocked, head.over_at = call('HLEN', s.names.t), 0
  end
  local done, cancelled = count_finished_jobs(s)
  for name, counted in pairs({ done = done, cancelled = cancelled }) do
    if head[name] ~= counted then
      said.count_mismatches[#said.count_mismatches + 1] = name
      said.count_mismatches[#said.count_mismatches + 1] = body.text(math.max(head[name], 0))
      said.count_mismatches[#said.count_mismatches + 1] = body.text(counted)
      if is_healing then
        head[name] = counted
      end
    end
  end
end

-- Deal with what calls have missed: a job that lost its delivery waits again, one whose body is gone is gone.
local function empty_quarantine(s, said)
  local items, is_known = healing.quarantine(s), {}
  for _, item in ipairs(items) do
    local kind, id = sub(item, 1, 1), sub(item, 3)
    if kind ~= 'd' and not is_known[id] then
      is_known[id] = true
      if not healing.has_body(s, id) then
        if call('HEXISTS', s.names.o, id) == 0 and #dead_letters.numbers_of(s, id) == 0 then
          healing.tell_lost(s, id)
        end
      elseif healing.is_in_no_index(s, id) then
        said.damages[#said.damages + 1] = 'unindexed'
        said.damages[#said.damages + 1] = id
        healing.let_wait(s, id, kind == 'a')
      end
    end
  end
  if #items > 0 then
    healing.afterwards(s, 'UNLINK', s.names.q)
  end
  said.cleared = #items
end

local SCANS = {
  { 'HSCAN', 'b', look_at_bodies },
  { 'ZSCAN', 'r', look_for_bodies },
  { 'ZSCAN', 'l', look_for_bodies },
  { 'ZSCAN', 'x', look_for_bodies },
  { 'HSCAN', 'a', look_for_bodies },
  { 'HSCAN', 't', look_at_blocked_jobs },
  { 'HSCAN', 'd', look_at_dead_letters },
  { 'ZSCAN', 'dn', look_for_dead_letters },
  { 'ZSCAN', 'di', look_for_dead_letters_of_ids },
}

local function write(s)
  finish(s)
  for _, command in ipairs(s.after or {}) do
    call(unpack(command))
  end
  s.after = nil
end

-- One part of one scan: the next cursor, and how many names were looked at.
local function scan(s, phase, cursor, limit, said, is_healing)
  local command, suffix, look = unpack(SCANS[phase])
  local next_cursor, flat = unpack(call(command, s.names[suffix], cursor, 'COUNT', limit))
  local names, values, heals, is_known = {}, {}, {}, {}
  for at = 1, #flat, 2 do
    if not is_known[flat[at]] then -- a scan may show a name twice
      is_known[flat[at]] = true
      names[#names + 1], values[#values + 1] = flat[at], flat[at + 1]
    end
  end
  look(s, names, values, function(flaw, id, heal)
    said.damages[#said.damages + 1] = flaw
    said.damages[#said.damages + 1] = id
    heals[#heals + 1] = { heal, id }
  end)
  if is_healing and #heals > 0 then
    for _, heal in ipairs(heals) do
      heal[1](s, heal[2])
    end
    write(s)
  end
  return next_cursor, #names
end

-- Walk on from a phase and the cursor of its scan, past about `limit` records; heal what is found if that is asked for.
-- Answers flaw and id in turn, counter, value and count in turn, how much of the quarantine was cleared, and where to go
-- on: the phase ('' at the end) and the cursor.
function mending.walk(s, phase, cursor, limit, is_healing)
  local said, looked = { damages = {}, count_mismatches = {}, cleared = 0 }, 0
  while phase <= #SCANS and looked < limit do
    local count
    cursor, count = scan(s, phase, cursor, limit - looked, said, is_healing)
    looked = looked + count
    if cursor == '0' then
      phase = phase + 1
    end
  end
  if phase <= #SCANS then
    return { said.damages, said.count_mismatches, 0, phase, cursor }
  end
  look_at_counts(s, is_healing, said)
  if is_healing then
    empty_quarantine(s, said)
    write(s)
  end
  return { said.damages, said.count_mismatches, said.cleared, '', '' }
end
