"""By which reading of the protocol offers are worked out."""

from __future__ import annotations

from typing import Final, NamedTuple

V1_6: Final = "v1.6"
V1_8: Final = "v1.8"


class Rules(NamedTuple):
    """`mid_formula` is that of Koordinator 1.6, which adds the share of what nobody asked for to a capped amount, or
    that of 1.8, which caps the sum. `forgets_unmeasured`: as the reference does, a pod that nobody has measured counts
    nothing where the larger of usage and request does.
    """

    mid_formula: str = V1_6
    forgets_unmeasured: bool = False


DEFAULT: Final = Rules()
