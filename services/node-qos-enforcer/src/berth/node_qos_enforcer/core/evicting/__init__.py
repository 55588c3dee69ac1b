"""Who should leave this node: laws that say how much has to be released, the order of victims, and one round of both.

Nothing here evicts. What follows from a round are asks, which slo-manager grants or refuses.
"""
