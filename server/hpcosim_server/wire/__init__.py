"""ZeroMQ's wire protocol on plain sockets: bounded messages, bounded queues, no thread."""
