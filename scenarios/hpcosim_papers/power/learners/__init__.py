"""Training of power managers: switch nodes on and off."""
