"""node_power."""
