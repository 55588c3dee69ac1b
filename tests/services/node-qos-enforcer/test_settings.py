"""What the environment may say."""

import socket

import pytest

from berth.node_qos_enforcer.settings import Settings, with_kubernetes_name
from berth.runtime import SettingsError, load_settings


def load(**environ: str) -> Settings:
    return load_settings(Settings, with_kubernetes_name(environ))


def test_defaults_measure_this_machine():
    settings = load()
    assert settings.node_or_default() == socket.gethostname().lower()
    assert settings.cgroup_or_default() == "/sys/fs/cgroup"
    assert settings.interval_s == 10.0


def test_name_of_the_node():
    assert load(NODE_NAME="a").node_or_default() == "a"
    assert load(NODE_NAME="a", BERTH_NODE_NAME="b").node_or_default() == "b"


def test_mounts_of_a_daemon_set():
    assert load(BERTH_SYS_ROOT="/host-sys/").cgroup_or_default() == "/host-sys/fs/cgroup"
    assert load(BERTH_CGROUP_ROOT="/host-cgroup").cgroup_or_default() == "/host-cgroup"


@pytest.mark.parametrize(
    ("variable", "value"),
    [("INTERVAL_S", "0"), ("INTERVAL_S", "nan"), ("NODE_NAME", "x" * 300)],
)
def test_bad_values_are_named(variable, value):
    with pytest.raises(SettingsError, match=f"BERTH_{variable}"):
        load(**{f"BERTH_{variable}": value})
