"""What labels, annotations and specs mean, as pure functions shared by several services."""
