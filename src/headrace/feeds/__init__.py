"""Live feeds for users: feeds, sorted feeds and item queues, with subscriptions to their changes."""
