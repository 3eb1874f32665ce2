"""What a node is made of: the inventory of models, the view of one node, and its compute density."""
