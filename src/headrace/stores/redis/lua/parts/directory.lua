-- Directory: the feed of a tenant's feeds. Its items are the feeds by name, each with its configuration.
--
-- uses  numbers, feed, items

local directory = {}

-- Record a change of a feed: 'c'reated, confi'g'ured or 'd'eleted; `config_text` is nil for a deleted one.
function directory.record(d, event, name, config_text)
  local counters, known = d.counters, items.row(d, name)
  feed.note_change(d, event, '-', name, config_text)
  feed.write_changes(d)
  if known and not config_text then
    items.drop(d, name, known)
    counters.items = counters.items - 1
  elseif config_text then
    items.put_named(d, name, config_text)
    counters.items = counters.items + (known and 0 or 1)
    counters.total = counters.total + 1
  end
  items.write(d)
  feed.save(d)
  feed.notify_readers(d)
end

-- The directory, ready to be written; a new one when it does not exist.
function directory.open(key, config_text, instance, now)
  local d = feed.open(key, now) or feed.new(key, config_text, numbers.text(now) .. '.0', now)
  feed.begin_change(d, instance)
  return d
end

return directory
