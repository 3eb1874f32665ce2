"""Energy of a node by pod, with bounds: docs/decisions/0045-energy-by-pod.md and 0049-energy-series.md."""
