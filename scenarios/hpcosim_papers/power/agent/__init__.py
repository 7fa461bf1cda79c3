"""The agent that switches nodes: its power manager and networks."""
