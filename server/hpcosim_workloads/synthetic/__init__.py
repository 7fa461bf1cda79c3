"""Jobs that are drawn at random: by a model of its own, or from the jobs of a log."""
