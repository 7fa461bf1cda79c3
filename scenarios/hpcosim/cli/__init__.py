"""The `hpcosim` command: a module per command or command group."""
