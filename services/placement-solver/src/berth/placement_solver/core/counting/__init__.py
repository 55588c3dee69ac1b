"""Programs that count pods by item (pods that are alike) and group of nodes; there is no variable for each pod.

At home in the optimiser's child process. `supplies` says what runs short, `program` is the integer program by HiGHS,
which the joint path solves for a plan, and bounds for how many pods any plan places.
"""
