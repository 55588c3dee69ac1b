"""The HTTP face of the store: paths, verbs, watches, discovery, tokens, faults."""
