"""Batsim's output files: what a run came to in Batsim's terms, and the text of the files."""
