"""Hardware of a node: the inventory of models, the view of one node, and its compute density."""
