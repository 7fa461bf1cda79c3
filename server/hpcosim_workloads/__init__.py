"""Where jobs come from: log files, the project's own JSON, and models of real logs."""
