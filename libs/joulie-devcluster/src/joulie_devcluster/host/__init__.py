"""Access to this host: child processes, readiness, ports, locks, user directories, privileges, progress output."""
