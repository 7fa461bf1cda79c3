"""Learning algorithms that know no problem: rollouts, losses, updates, and the training session."""
