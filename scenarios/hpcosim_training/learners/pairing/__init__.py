"""Learning to pair jobs with nodes."""
