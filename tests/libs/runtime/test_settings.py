from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from berth.runtime import Seconds, ServiceSettings, SettingsError, load_settings
from berth.testing.environment import environment_of


class Pool(Struct, frozen=True, kw_only=True):
    name: str
    weight: int = 1


class Settings(ServiceSettings, frozen=True, kw_only=True):
    node_name: Annotated[str, Meta(description="name of this node")]
    schedulers: Annotated[tuple[str, ...], Meta(min_length=1, description="scheduler names that are ours")] = ("berth",)
    window_s: Seconds = 0.005
    mode: Literal["fast", "safe"] = "fast"
    dry_run: bool = False
    weights: dict[str, int] = {}
    pool: Pool | None = None
    limit: int | None = None
    ratio: float = 1.0

    def __post_init__(self) -> None:
        if self.mode == "safe" and self.window_s > 1:
            raise ValueError("BERTH_WINDOW_S must be at most 1 when BERTH_MODE is safe")


def test_reads_every_kind():
    settings = load_settings(
        Settings,
        {
            "BERTH_NODE_NAME": " n1 ",
            "BERTH_SCHEDULERS": "berth-scheduler, koord-scheduler,",
            "BERTH_WINDOW_S": "0.25",
            "BERTH_MODE": "safe",
            "BERTH_DRY_RUN": "yes",
            "BERTH_WEIGHTS": '{"cpu": 2}',
            "BERTH_POOL": '{"name": "a"}',
            "BERTH_LIMIT": "12",
            "BERTH_HTTP_PORT": "8080",
            "BERTH_LOG_FORMAT": "",
            "BERTH_SOMETHING_ELSE": "ignored",
            "HOME": "/",
        },
    )
    assert settings == Settings(
        node_name="n1",
        schedulers=("berth-scheduler", "koord-scheduler"),
        window_s=0.25,
        mode="safe",
        dry_run=True,
        weights={"cpu": 2},
        pool=Pool(name="a"),
        limit=12,
        http_port=8080,
    )


@pytest.mark.parametrize(("text", "value"), [("1", True), ("off", False), ("TRUE", True), ("no", False), ("On", True)])
def test_booleans(text, value):
    assert load_settings(Settings, {"BERTH_NODE_NAME": "n", "BERTH_DRY_RUN": text}).dry_run is value


def test_every_problem_is_reported_with_variable_and_remedy():
    with pytest.raises(SettingsError) as caught:
        load_settings(
            Settings, {"BERTH_HTTP_PORT": "99999", "BERTH_MODE": "slow", "BERTH_WEIGHTS": "{", "BERTH_SCHEDULERS": ","}
        )
    assert len(caught.value.problems) == 5
    text = str(caught.value)
    assert "BERTH_NODE_NAME is not set (name of this node)" in text
    assert "(one of fast, safe; default 'fast')" in text
    assert "BERTH_HTTP_PORT='99999': expected `int` <= 65535 (port for health and metrics" in text
    assert "default 0" in text
    assert "BERTH_MODE='slow': " in text
    assert "BERTH_WEIGHTS='{': " in text
    assert "BERTH_SCHEDULERS=',': " in text


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BERTH_WINDOW_S", "nan"),
        ("BERTH_WINDOW_S", "inf"),
        ("BERTH_WINDOW_S", "-1"),
        ("BERTH_WINDOW_S", "0"),
        ("BERTH_RATIO", "nan"),
        ("BERTH_RATIO", "inf"),
        ("BERTH_RATIO", "1e999"),
        ("BERTH_LIMIT", "1.5"),
        ("BERTH_LIMIT", "9" * 400),
        ("BERTH_DRY_RUN", "maybe"),
        ("BERTH_POOL", '{"weight": 1}'),
        ("BERTH_POOL", "x" * 70_000),
        ("BERTH_NATS_REPLICAS", "2"),
    ],
)
def test_unusable_values(variable, value):
    with pytest.raises(SettingsError) as caught:
        load_settings(Settings, {"BERTH_NODE_NAME": "n", variable: value})
    (problem,) = caught.value.problems
    assert problem.startswith(variable)
    assert len(problem) < 400


def test_fields_that_do_not_fit_together():
    with pytest.raises(SettingsError, match="BERTH_WINDOW_S must be at most 1"):
        load_settings(Settings, {"BERTH_NODE_NAME": "n", "BERTH_MODE": "safe", "BERTH_WINDOW_S": "2"})


def test_instance_has_a_default_of_its_own():
    assert load_settings(ServiceSettings, {}).instance_or_default()
    assert load_settings(ServiceSettings, {"BERTH_INSTANCE": "q-0"}).instance_or_default() == "q-0"


@given(
    st.builds(
        Settings,
        node_name=st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True),
        schedulers=st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), min_size=1, max_size=3).map(tuple),
        window_s=st.floats(0.001, 1.0),
        mode=st.sampled_from(["fast", "safe"]),
        dry_run=st.booleans(),
        weights=st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.integers(-9, 9), max_size=3),
        pool=st.none() | st.builds(Pool, name=st.from_regex(r"[a-z]{1,5}", fullmatch=True), weight=st.integers(0, 9)),
        limit=st.none() | st.integers(-(2**60), 2**60),
        http_port=st.integers(0, 65535),
        nats_replicas=st.sampled_from([1, 3, 5]),
        exit_with_parent=st.booleans(),
    )
)
def test_the_environment_of_settings_gives_them_back(settings):
    assert load_settings(Settings, environment_of(settings)) == settings


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_settings_error(text):
    for variable in (
        "BERTH_HTTP_PORT",
        "BERTH_WINDOW_S",
        "BERTH_WEIGHTS",
        "BERTH_POOL",
        "BERTH_SCHEDULERS",
        "BERTH_DRY_RUN",
    ):
        try:
            load_settings(Settings, {"BERTH_NODE_NAME": "n", variable: text})
        except SettingsError as error:
            (problem,) = error.problems
            if not problem.startswith(variable):
                raise
