-- The directory of a tenant's feeds: a feed whose items are the feeds, by name, each with its configuration.

local directory = {}

do
  -- Write one change: 'c'reated, confi'g'ured or 'd'eleted. `config_text` is what is kept of the feed, nil when it is gone.
  function directory.list(d, event, name, config_text)
    local head, known = d.head, items.row(d, name)
    feed.note(d, event, '-', name, config_text)
    feed.close(d)
    if known and not config_text then
      items.drop(d, name, known)
      head.items = head.items - 1
    elseif config_text then
      items.keep(d, name, config_text)
      head.items = head.items + (known and 0 or 1)
      head.total = head.total + 1
    end
    items.write(d)
    feed.save(d)
    feed.tell(d)
  end

  -- The directory, ready to be written to; made when it is not there.
  function directory.open(key, config_text, instance, now)
    local d = feed.open(key, now) or feed.new(key, config_text, body.text(now) .. '.0', now)
    feed.start(d, instance)
    return d
  end
end
