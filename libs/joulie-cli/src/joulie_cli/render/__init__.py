"""Pure functions from what was read to lines and data."""
