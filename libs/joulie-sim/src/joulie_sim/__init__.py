"""Hardware and workload that do not exist: physics, traces, HTTP backend, demo."""
