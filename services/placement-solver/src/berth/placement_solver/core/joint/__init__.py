"""The joint path: gangs and contended batches as one integer model over classes, for when one by one is not enough.

A model counts how many pods of each item (a class within a gang, or a class of single pods) go to each node; it has no
variable per pod. `problem` writes the waiting units down as arrays, over the nodes that `choosing` picks, `model` looks
for better counts in the child process, `expand` turns counts back into claims, checked one by one against the exact
capacity. The caller takes the result only if it beats the plan at hand, and the verifier accepts it.
"""
