"""Why nobody takes a pod or a gang: the smallest set of constraints that forbid it, what is nearest, what helps."""
