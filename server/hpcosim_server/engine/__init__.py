"""Events, decisions and time: what happens in a simulation, and when."""
