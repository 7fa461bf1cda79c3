"""The agent that chooses the next job of the queue: a search for its rule."""
