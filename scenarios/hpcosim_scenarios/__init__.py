"""The top floor: scenarios, both processes or none, figures, and the `hpcosim` command."""
