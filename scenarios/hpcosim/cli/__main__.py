"""Entry point of `python -m hpcosim.cli`."""

from hpcosim.cli.main import main

main()
