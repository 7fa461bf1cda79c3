"""Networks of SimGrid platforms: routes between hosts, loads of links, and shares of jobs."""
