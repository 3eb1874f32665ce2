"""Hardware that does not exist, for the tests of the agent and of whoever uses it."""
