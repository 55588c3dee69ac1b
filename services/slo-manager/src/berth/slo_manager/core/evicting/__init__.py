"""What agents of nodes ask to have evicted, and what they are answered."""
