"""What GPUs are worth by what arrives: the workload as the solver sees it, and the prices that follow from it."""
