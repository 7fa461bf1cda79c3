"""What is known of a cluster: a live one, its past, and the state of its queue."""
