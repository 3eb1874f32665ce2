"""Physics of simulated hardware, without clock and I/O."""
