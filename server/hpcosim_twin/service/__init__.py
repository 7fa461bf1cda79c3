"""A twin that runs: its faces, and who sees what."""
