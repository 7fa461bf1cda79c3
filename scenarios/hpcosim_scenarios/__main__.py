"""`python -m hpcosim_scenarios` is `hpcosim`."""

from hpcosim_scenarios.cli import main

main()
