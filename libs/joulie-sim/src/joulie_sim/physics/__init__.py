"""The physics of simulated hardware: pure functions and one stateful node, no clock and no I/O."""
