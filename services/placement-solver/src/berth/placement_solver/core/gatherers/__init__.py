"""Where the members of a gang lie to each other: one file for each way of gathering them."""
