-- Telling those who wait: that there may be work, and which jobs have ended while the shard knows of anybody who waits
-- for that.

local telling = {}

-- Publish a hint. One that is not let through, for want of the right to publish, must not break a call half-way.
function telling.publish(channel, said)
  redis.pcall('SPUBLISH', channel, said)
end

-- Remember that a job has ended or is gone. Those that settle has put into s.over need not be named here.
function telling.note(s, id)
  if s.awaited then
    s.gone = s.gone or {}
    s.gone[#s.gone + 1] = id
  end
end

-- Tell what was noted and what was over, in one message: the ids on lines. The time is the server's: a call may be given
-- another.
function telling.ends(s, over)
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
  telling.publish(s.names.ends, concat(ids, '\n'))
end
