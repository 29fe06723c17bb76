-- Notify: hints to workers that there may be work, and to clients that jobs have ended.
--
-- uses  shard
--
-- Ends are published only while a client waits for one (await_end.lua), until the instant in the field `awaited`.

local notify = {}

-- Publish a hint. A user without the right to publish must not break a call half-way.
function notify.publish(channel, message)
  redis.pcall('SPUBLISH', channel, message)
end

-- Remember that a job has ended or was removed. Jobs in s.done_ids are remembered there.
function notify.note_end(s, id)
  if s.awaited_until then
    s.ended_ids = s.ended_ids or {}
    s.ended_ids[#s.ended_ids + 1] = id
  end
end

-- Publish the ids of all jobs that this call has ended, as lines of one message. By the server's clock: a call may have
-- another instant.
function notify.publish_ends(s, done_ids)
  local ids = s.ended_ids or {}
  s.ended_ids = nil
  for i = 1, done_ids and #done_ids or 0 do
    ids[#ids + 1] = done_ids[i]
  end
  if #ids == 0 then
    return
  end
  if tonumber(s.awaited_until) <= shard.now('') then
    -- No client waits any more: spare later calls the work.
    call('HDEL', s.names.meta, 'awaited')
    s.awaited_until = false
    return
  end
  notify.publish(s.names.end_channel, concat(ids, '\n'))
end

return notify
