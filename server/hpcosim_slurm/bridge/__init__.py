"""The server's side of the protocol for a live cluster, for one scheduler at a time."""
