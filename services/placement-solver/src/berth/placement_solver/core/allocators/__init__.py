"""What is given out one by one within a node, a file for each kind; `core.registry` lists them."""
