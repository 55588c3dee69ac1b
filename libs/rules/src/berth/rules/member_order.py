"""The order of a job's pods among themselves, for neighbours in a network topology."""

from berth.rules.numbers import parse_integer


def member_key(name: str, index: str | None) -> tuple[bool, int, str]:
    """Smaller is earlier: pods with a usable index (annotation text, a non-negative integer) by it, then the others,
    each by name.
    """
    number = parse_integer(index) if index else None
    if number is None or number < 0:
        return (True, 0, name)
    return (False, number, name)
