"""The agent that chooses the next job of the queue, with EASY backfilling behind it."""
