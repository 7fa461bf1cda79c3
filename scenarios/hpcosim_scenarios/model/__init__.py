"""The content of a scenario file: sections, bounds and jobs. Loads no scheduler."""
