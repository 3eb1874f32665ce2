"""kind without a registry: a node image from Debian packages and built binaries, and an engine that runs nodes."""
