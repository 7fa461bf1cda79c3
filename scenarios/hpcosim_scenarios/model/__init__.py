"""What a scenario's file says: its sections, their bounds, its jobs. No scheduler is loaded."""
