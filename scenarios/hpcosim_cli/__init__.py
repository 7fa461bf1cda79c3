"""hpcosim_cli."""
