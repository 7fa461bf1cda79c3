"""The `hpcosim` command: a file for each command or group, what they share in `options`."""
