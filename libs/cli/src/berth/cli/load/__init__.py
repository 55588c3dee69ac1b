"""Load on an API server and the eyes on it: a cheap client, ordered creation, one watch with times."""
