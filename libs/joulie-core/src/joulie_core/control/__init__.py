"""Control loops and conversions used by the agent: caps in watts, DVFS, clocks, energy counters, routing."""
