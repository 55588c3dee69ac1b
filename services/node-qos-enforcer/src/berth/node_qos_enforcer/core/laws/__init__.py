"""What a strategy comes to in numbers and texts: one law a file, of plain values. Strategies say where it goes."""
