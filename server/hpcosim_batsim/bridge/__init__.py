"""The simulation as a scheduler of Batsim sees it: its replies in, messages for it out."""
