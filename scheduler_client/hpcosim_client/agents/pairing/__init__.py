"""The agent that pairs jobs with nodes: what it sees, what it may do, and its networks."""
