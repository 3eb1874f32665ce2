"""The `joulie-devcluster` command line."""
