"""The commands of `joulie-sim` that simulate."""
