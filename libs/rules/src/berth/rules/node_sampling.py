"""How many feasible nodes are enough for kube-scheduler, which then stops looking.

Berth looks at all nodes. Whoever compares the two has to know when kube-scheduler saw only some.
"""

from typing import Final

NODES_MIN: Final = 100
PERCENT_MIN: Final = 5


def nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """Of so many nodes at this `percentageOfNodesToScore`; 0: fewer percent the more nodes there are, at least 5.

    At least 100 in any case, also with a percentage that is configured.
    """
    if nodes < NODES_MIN:
        return nodes
    percentage = percentage or max(PERCENT_MIN, 50 - nodes // 125)
    return max(NODES_MIN, nodes * percentage // 100)
