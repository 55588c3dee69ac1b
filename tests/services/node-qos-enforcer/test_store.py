"""The last strategy over a restart."""

import pytest
from msgspec.structs import replace

from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.slo import CpuSuppress, NodeSLO
from berth.node_qos_enforcer.store import BYTES_MAX, INVENTORY_BYTES_MAX, InventoryFile, StrategyFile

RULE = CpuSuppress(enabled=True, threshold_percent=40, min_percent=0, policy="cfsQuota")
TOLD = NodeSLO(node="n", uid="u", cpu_suppress=RULE, spec={"large": "x" * 100_000})


def test_what_is_kept_comes_back(tmp_path):
    path = tmp_path / "strategy.json"
    StrategyFile(str(path), "n").save(TOLD)
    assert StrategyFile(str(path), "n").load() == NodeSLO(node="n", cpu_suppress=RULE, spec=TOLD.spec)
    assert [each.name for each in tmp_path.iterdir()] == ["strategy.json"]


def test_of_a_specification_that_is_too_large_the_rule_of_best_effort_pods_is_kept(tmp_path):
    path = tmp_path / "strategy.json"
    StrategyFile(str(path), "n").save(replace(TOLD, spec={"large": "x" * BYTES_MAX}))
    assert StrategyFile(str(path), "n").load() == NodeSLO(node="n", cpu_suppress=RULE)


def test_what_did_not_change_is_not_written_again(tmp_path):
    path = tmp_path / "strategy.json"
    file = StrategyFile(str(path), "n")
    file.save(TOLD)
    before = path.stat().st_ino
    file.save(NodeSLO(node="n", uid="other", cpu_suppress=RULE, spec=TOLD.spec))
    assert path.stat().st_ino == before
    again = StrategyFile(str(path), "n")
    again.load()
    again.save(TOLD)
    assert path.stat().st_ino == before
    again.save(NodeSLO(node="n"))
    assert path.stat().st_ino != before


def test_a_withdrawn_strategy_is_forgotten(tmp_path):
    path = tmp_path / "strategy.json"
    file = StrategyFile(str(path), "n")
    file.save(TOLD)
    file.save(None)
    assert not path.exists()
    assert file.load() is None


def test_without_a_path_nothing_is_kept():
    file = StrategyFile("", "n")
    file.save(TOLD)
    assert file.load() is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (encode(TOLD)[:50], "not JSON"),
        (b"x" * (BYTES_MAX + 1), "larger than 262144"),
        (encode(NodeSLO(node="other")), "node: is of node 'other'"),
        (b'{"type":"nodeslo.set.v9","node":"n"}', "type"),
    ],
)
def test_a_file_of_no_use_says_why(tmp_path, data, words):
    path = tmp_path / "strategy.json"
    path.write_bytes(data)
    with pytest.raises(InvalidMessage, match=words):
        StrategyFile(str(path), "n").load()


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        StrategyFile(str(tmp_path / "absent/strategy.json"), "n").save(TOLD)


def test_the_inventory_of_before_comes_back_and_goes_with_its_withdrawal(tmp_path):
    path = tmp_path / "inventory.json"
    told = NodeInventory(node="n", version=1, gpu_vendor="hygon", devices=[DeviceSlot(kind="gpu", minor=0, uuid="a")])
    file = InventoryFile(str(path), "n")
    assert file.load() is None
    file.save(told)
    assert InventoryFile(str(path), "n").load() == told
    before = path.stat().st_ino
    file.save(replace(told))
    assert path.stat().st_ino == before
    with pytest.raises(InvalidMessage, match="is of node 'n'"):
        InventoryFile(str(path), "other").load()
    file.save(None)
    assert not path.exists()
    path.write_bytes(b"x" * (INVENTORY_BYTES_MAX + 1))
    with pytest.raises(InvalidMessage, match="larger"):
        file.load()
    assert InventoryFile("", "n").load() is None
