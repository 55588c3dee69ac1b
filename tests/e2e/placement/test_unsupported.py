"""What Berth does not do is refused by the name of the field, and holds up nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.corner import Corner

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "resource claims": ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}, "spec.resourceClaims"),
}


@pytest.mark.parametrize("what", UNSUPPORTED)
async def test_what_is_not_supported_is_refused_by_name(corner: Corner, what: str) -> None:
    await corner.node("n")
    more, field = UNSUPPORTED[what]
    await corner.pod("p", **more)
    await corner.refused("p", f"unsupported: {field}")
    why = await corner.whole.why(corner.namespace, "p")
    assert why.outcome == "refused"
    assert field in [reason.field for reason in why.reasons]
    await corner.placed_now()
