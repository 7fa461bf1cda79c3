"""What a platform does: cores and tasks, run times, power states, power and energy."""
