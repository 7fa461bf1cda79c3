"""The pairing agent, which pairs jobs with nodes: observations, actions and networks."""
