"""Building blocks for processes on this host: children, ports, file locks, directories, progress output."""
