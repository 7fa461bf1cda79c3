"""Jobs from files: the Standard Workload Format, JSON lines, results of CQSim; known traces."""
