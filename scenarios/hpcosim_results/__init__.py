"""Results of a run as columns: read from its folder or from a running simulation."""
