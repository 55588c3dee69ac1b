"""How many pods any plan of a batch can place at most: a bound on the whole batch (docs/decisions/0063-bounds.md).

`problem` writes down the batch and the nodes as columns, as they were when the round began; `columns` and `program` are
at home in the child process, which makes groups of nodes of them and solves; `verdict` says whether its answer is to be
believed, and what it means for the plan.
"""
