"""Training the agent that pairs jobs with nodes."""
