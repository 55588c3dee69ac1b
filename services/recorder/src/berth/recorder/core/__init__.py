"""What is recorded, as plain state."""
