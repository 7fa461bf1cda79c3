"""The compiled engine: simulations of common scenarios, with the results of the reference."""
