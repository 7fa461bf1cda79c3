"""The planner IPM and the controller SNF-ICON of Pulungan et al., 2026, as in their program."""
