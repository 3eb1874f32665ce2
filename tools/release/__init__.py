"""A release: the files that a user installs, made of a commit and the same bytes each time."""
