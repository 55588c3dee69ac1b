"""A Kubernetes cluster that exists already: how to reach it, and whether it has what Berth needs."""
