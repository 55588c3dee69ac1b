"""Readings and answers: text or bytes in, values or a `Problem` that names the field out. No I/O, no clock."""
