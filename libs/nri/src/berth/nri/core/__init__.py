"""The protocol as values: bytes to frames to messages and back. No I/O, no clock, no chance."""
