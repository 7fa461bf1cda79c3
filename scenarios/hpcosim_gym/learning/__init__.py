"""Learning algorithms that are independent of the problem: rollouts, losses, updates, sessions."""
