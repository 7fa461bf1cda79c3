"""Every scheduler and every power manager by name."""
