"""One module for each verb: reads what it needs, and prints what `joulie_cli.render` makes of it."""
