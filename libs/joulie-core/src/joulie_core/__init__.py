"""Models, policy math and power estimator of Joulie; pure functions, no I/O."""
