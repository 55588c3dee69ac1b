"""Who has to leave so that a whole job fits, and where its members go: a plan of least cost.

A victim costs one more than the rank of its priority among those who might leave. Who leaves together is a unit: a pod,
or a gang that cannot spare a member. `first_plan` gives a plan at once. Amounts alone are known here: whether each
member really fits is for the user of a plan to ask.
"""
