"""One module per command: what it does, given its options as plain values, answering with an exit code."""
