-- Step: the end of a call, when the decisions on its shards are written.
--
-- uses  journal, shard, notify, live_jobs, finished_jobs, dead_letters

local step = {}

-- Write the decisions on a shard, its journal entry first; before that, those on its fail queue. A fail queue's shard
-- that is itself a shard of the call is committed once, with all decisions on it.
function step.commit(s)
  if s.fail_queue and not s.is_shared then
    step.commit(s.fail_queue)
  end
  s.fail_queue = nil
  local has_lines, done_ids = s.line_count > 0, s.done_ids
  journal.write(s)
  live_jobs.write(s)
  finished_jobs.write(s)
  dead_letters.write(s)
  if s.must_sweep then
    finished_jobs.sweep(s)
    s.must_sweep = false
  end
  if has_lines then
    journal.trim(s, LIMITS.journal_trim_per_call_max)
  end
  shard.save(s)
  if s.awaited_until then
    notify.publish_ends(s, done_ids)
  end
end

-- Write the decisions on all shards of a call, false for each that does not exist. All have decided before.
function step.commit_all(found)
  for _, s in ipairs(found) do
    if s then
      step.commit(s)
    end
  end
end

return step
