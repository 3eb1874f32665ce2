"""The demo: runs Joulie and a workload on a simulated cluster for a few minutes, and shows power and placement."""
