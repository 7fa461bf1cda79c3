"""The training of the power manager `learned`."""
