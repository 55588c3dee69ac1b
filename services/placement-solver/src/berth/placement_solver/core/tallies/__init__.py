"""One running sum over claims a file; see `core.seams.Tally`."""
