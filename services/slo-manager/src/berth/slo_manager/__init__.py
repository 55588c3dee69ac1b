"""Which quality-of-service strategy holds on each node?"""
