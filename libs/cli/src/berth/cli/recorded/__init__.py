"""What recorder has kept: read again, and the plans in it made again."""
