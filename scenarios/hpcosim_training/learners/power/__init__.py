"""Learning to switch nodes on and off."""
