"""Models of the platform: cores and tasks, run times, power states, power and energy."""
