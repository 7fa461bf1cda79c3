"""Decision components of Batsim 5: their messages, and libraries and processes that decide."""
