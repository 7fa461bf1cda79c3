"""The experiment file: its types, its reader, and the combinations of its axes."""
