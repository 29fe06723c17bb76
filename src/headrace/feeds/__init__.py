"""Live feeds for users: feeds, sorted feeds and plain queues, and subscriptions to what changes in them."""
