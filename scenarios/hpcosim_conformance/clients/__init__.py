"""The checks of a client: the kit plays the server, with a real simulation behind it."""
