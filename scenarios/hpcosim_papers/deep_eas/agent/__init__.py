"""The agent Deep-EAS (Esmaili, Pedram 2019), which binds jobs to machines."""
