"""The README of a service tells its settings, and the manual those that all have."""

from __future__ import annotations

import importlib
import re

import msgspec
import pytest
from tests.house.survey import ROOT, SERVICES

from berth.bus.topology import TOPOLOGY
from berth.runtime.settings import ServiceSettings, variable_of

HEADINGS = ["Decides", "Reads", "Writes", "Knobs", "Metrics", "Failure modes"]


@pytest.mark.parametrize("service", SERVICES)
def test_the_readme_of_a_service_has_the_same_headings(service: str) -> None:
    readme = (ROOT / f"services/{service}/README.md").read_text()
    assert re.findall(r"^## (.+)$", readme, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("service", SERVICES)
def test_the_readme_of_a_service_names_every_knob(service: str) -> None:
    settings = importlib.import_module(f"berth.{service.replace('-', '_')}.settings").Settings
    knobs = set(settings.__struct_fields__) - set(ServiceSettings.__struct_fields__)
    text = (ROOT / f"services/{service}/README.md").read_text()
    missing = [variable_of(knob) for knob in knobs if f"_{knob.upper()}`" not in text]
    assert not missing
    mentioned = set(re.findall(r"`(BERTH_[A-Z_]+)`", text))
    assert mentioned <= {*map(variable_of, settings.__struct_fields__), *(item.stream for item in TOPOLOGY)}


@pytest.mark.parametrize("service", SERVICES)
def test_the_readme_of_a_service_tells_the_defaults(service: str) -> None:
    settings = importlib.import_module(f"berth.{service.replace('-', '_')}.settings").Settings
    defaults = {variable_of(name): value for name, value in environment_defaults(settings).items()}
    text = (ROOT / f"services/{service}/README.md").read_text()
    for variables, told in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]+) \|", text, re.MULTILINE):
        knobs = [knob for knob in re.findall(r"`(\w+)`", variables) if knob in defaults]
        values = [value.strip(" `") for value in told.split(",")]
        if len(knobs) == len(values) and told.strip():
            # What is empty is explained in words; a number may have some behind it.
            wrong = [k for k, v in zip(knobs, values, strict=True) if defaults[k] and v.split(" ")[0] != defaults[k]]
            assert not wrong


def environment_defaults(settings: type[ServiceSettings]) -> dict[str, str]:
    """The defaults as people write them."""
    found = {}
    for field in msgspec.structs.fields(settings):
        value = field.default
        if isinstance(value, float):
            found[field.name] = f"{value:g}"
        elif isinstance(value, tuple):
            found[field.name] = ",".join(value)
        else:
            found[field.name] = str(value).lower()
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_has_a_sentence(service: str) -> None:
    settings = importlib.import_module(f"berth.{service.replace('-', '_')}.settings").Settings
    properties = msgspec.json.schema(settings)["$defs"]["Settings"]["properties"]
    assert not [name for name, field in properties.items() if not field.get("description")]


def test_the_common_settings_are_in_the_manual() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    assert not [field for field in ServiceSettings.__struct_fields__ if f"`{variable_of(field)}`" not in text]
