"""What a node may lend: amounts with every term of their sums, when they change, and when they are written."""
