"""Whether a Reservation can serve new pods at all. Who they are and what they need is asked later."""


def reservation_matchable(
    *, phase: str, node: str, owners_readable: bool, allocate_once: bool = True, users: int = 0
) -> bool:
    """Available on a node, with readable owners, and not one that a single pod may use and has used."""
    return phase == "Available" and bool(node) and owners_readable and not (allocate_once and users > 0)
