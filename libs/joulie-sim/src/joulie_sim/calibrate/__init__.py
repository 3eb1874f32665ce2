"""Fits the constants of the power models to published measurements, and states the errors of the models on any."""
