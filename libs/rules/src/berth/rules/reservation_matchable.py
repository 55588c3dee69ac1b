"""Whether a Reservation, or a pod that stands in for one, can serve new pods at all. Who they are and what they need
is asked later.
"""


def reservation_matchable(
    *, phase: str, node: str, owners_readable: bool, allocate_once: bool = True, users: int = 0
) -> bool:
    """Available on a node, with readable owners, and not one that a single pod may use and has used."""
    return phase == "Available" and bool(node) and owners_readable and not (allocate_once and users > 0)


def operating_pod_matchable(*, phase: str, ready: bool, node: str, owners_readable: bool, users: int = 0) -> bool:
    """An operating pod serves while it runs and is ready, always for one user only.

    Nobody asks this yet: the solver refuses operating pods by name. It is the rule for when it does not.
    """
    return phase == "Running" and ready and bool(node) and owners_readable and users == 0
