"""Experiments: what Joulie saves and who pays, each in a directory of its own. See README.md."""
