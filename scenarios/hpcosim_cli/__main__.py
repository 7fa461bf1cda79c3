"""Entry point of `python -m hpcosim_cli`."""

from hpcosim_cli.main import main

main()
