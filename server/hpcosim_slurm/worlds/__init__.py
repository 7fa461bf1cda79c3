"""What a scheduler sees of a live cluster, and what its decisions do."""
