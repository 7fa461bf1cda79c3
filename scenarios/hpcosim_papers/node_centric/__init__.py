"""Node-centric scheduling (Stafford, Bosque 2024)."""
