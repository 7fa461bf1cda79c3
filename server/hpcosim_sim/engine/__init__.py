"""The simulation engine: simulated time, jobs, decisions and events."""
