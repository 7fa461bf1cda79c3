"""The agent that chooses the next job of the queue: settings and learner."""
