"""The ConfigMap of strategies for nodes: how it is read, what it may hold, what holds on one node."""
