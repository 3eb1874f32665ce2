"""Decides which nodes supply full performance and publishes targets, labels and twins."""
