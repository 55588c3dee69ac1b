"""What counts as a difference, without I/O."""
