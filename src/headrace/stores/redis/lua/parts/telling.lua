-- Telling those who wait for the end of a job, while the shard knows of any: one message for each call, the ids on lines.

local telling = {}

-- Remember that a job has ended or is gone. Those that settle has put into s.over need not be named here.
function telling.note(s, id)
  if s.awaited then
    s.gone = s.gone or {}
    s.gone[#s.gone + 1] = id
  end
end

-- Publish what was noted and what was over. The time is the server's: a call may be given another.
function telling.publish(s, over)
  local ids = s.gone or {}
  s.gone = nil
  for i = 1, over and #over or 0 do
    ids[#ids + 1] = over[i]
  end
  if #ids == 0 then
    return
  end
  if tonumber(s.awaited) <= shard.now('') then
    -- Nobody has waited for a while: calls need not think of it any more.
    call('HDEL', s.names.m, 'awaited')
    s.awaited = false
    return
  end
  return
end
