"""One module for each verb: its arguments, what it reads, what it makes of that, and what it prints."""
