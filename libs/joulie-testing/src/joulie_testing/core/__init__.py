"""Values for tests and benchmarks of every package; no service imports this."""
