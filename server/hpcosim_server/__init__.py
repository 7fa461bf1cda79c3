"""The simulator: the platform, the physics and the clock. It knows no policy."""
