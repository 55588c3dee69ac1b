"""Evictions that the agent of a node asks for: which features run, which pods each may name, what a pod counts for.

Names and meanings are Koordinator's. The agent chooses by these rules, and slo-manager asks them again before it lets a
pod leave.
"""
