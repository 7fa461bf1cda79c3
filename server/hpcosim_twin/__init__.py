"""A twin of a cluster: the state of its queue, simulated forward, answers questions."""
