"""`python -m hpcosim_cli` is `hpcosim`."""

from hpcosim_cli.main import main

main()
