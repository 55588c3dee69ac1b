"""What solvers read, kept so that their plans can be made again: values and bytes, no files."""
