"""Plans by one that knows all jobs: the cheapest switching of nodes, the optimum of small cases."""
