"""Live view of a server's sessions over HTTP, and the pace of their simulated time."""
