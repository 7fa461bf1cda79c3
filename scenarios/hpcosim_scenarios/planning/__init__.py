"""Plans with all jobs known: optimal switching of nodes, and the optimum of small scenarios."""
