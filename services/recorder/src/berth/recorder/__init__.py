"""What did solvers read? Every message, appended to files, so that their plans can be made again."""
