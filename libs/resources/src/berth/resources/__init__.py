"""Kubernetes quantities, resource vectors and the scheduling request of a pod, as integers."""
