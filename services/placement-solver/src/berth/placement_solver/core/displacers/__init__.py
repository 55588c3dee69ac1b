"""Who would have to leave so that a pod fits: one reason to make pods leave a file (docs/evictions.md)."""
