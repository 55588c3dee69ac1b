"""Many processes, their bus and their API server in one, on virtual time and one seed."""
