"""One module per command: what it does, told its options as plain values, answering with an exit code."""
