"""Reference cases of what strategies decide by."""

import pytest

from berth.node_qos_enforcer.core.strategies.node_slo import effective_section
from berth.testing.vectors import cases


@pytest.mark.parametrize("case", cases("node-qos/node-slo-merge"))
def test_a_section_over_its_defaults(case):
    given = case["given"]
    assert effective_section(given["section"], given["spec"]) == case["expect"]["merged"]
