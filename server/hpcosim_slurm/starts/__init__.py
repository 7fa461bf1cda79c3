"""When will a waiting job start? The state of a cluster, simulated forward with drawn run times."""
