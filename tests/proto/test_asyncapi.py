"""The AsyncAPI document names every message, every way it travels, and nothing that is not there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from berth.contracts.asyncapi import address, channel_id, document
from berth.contracts.catalogue import CHANNELS, Channel

ROOT = Path(__file__).parents[2]
DOCUMENT = json.loads((ROOT / "proto/asyncapi.json").read_text())
CHANNEL_IDS = DOCUMENT["channels"]
OPERATIONS = DOCUMENT["operations"]
MESSAGES = DOCUMENT["components"]["messages"]
RECORDED = ROOT / "tests/proto/recorded"
ROWS = [pytest.param(row, id=f"{row.tag}-{row.pattern}-{row.writer}") for row in CHANNELS]
KEY = re.compile(r"[\w.-]+")
FIELDS = {
    "channel": {"address", "title", "description", "messages", "parameters", "x-berth-writers"},
    "operation": {"action", "channel", "messages", "reply"},
    "message": {"name", "title", "summary", "payload"},
}


def parts(value: Any, path: str = "#") -> Iterator[tuple[str, Any]]:
    yield path, value
    if isinstance(value, dict):
        for name, part in value.items():
            yield from parts(part, f"{path}/{name}")
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield from parts(part, f"{path}/{index}")


def followed(reference: str) -> Any:
    value: Any = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        value = value[step]
    return value


def test_it_is_the_generated_one() -> None:
    assert json.loads(json.dumps(document())) == DOCUMENT


def test_it_has_what_the_specification_requires() -> None:
    assert re.fullmatch(r"3\.\d+\.\d+", DOCUMENT["asyncapi"])
    assert DOCUMENT["info"].keys() >= {"title", "version"}
    for server in DOCUMENT["servers"].values():
        assert server.keys() >= {"host", "protocol"}
    for name, channel in CHANNEL_IDS.items():
        assert KEY.fullmatch(name)
        assert channel.keys() <= FIELDS["channel"]
        assert set(re.findall(r"{(\w+)}", channel["address"])) == channel.get("parameters", {}).keys()
        assert channel["messages"]
    for operation in OPERATIONS.values():
        assert operation.keys() <= FIELDS["operation"]
        assert operation["action"] in ("send", "receive")
    for message in MESSAGES.values():
        assert message.keys() <= FIELDS["message"]
        assert message["summary"]
    for section in DOCUMENT["components"].values():
        assert all(KEY.fullmatch(name) for name in section)


def test_every_reference_leads_somewhere() -> None:
    references = [value["$ref"] for _, value in parts(DOCUMENT) if isinstance(value, dict) and "$ref" in value]
    assert references
    for reference in references:
        assert followed(reference)


def test_an_operation_speaks_of_messages_of_its_channel() -> None:
    for operation in OPERATIONS.values():
        for side in (operation, operation.get("reply", operation)):
            channel = side["channel"]["$ref"]
            for message in side["messages"]:
                assert message["$ref"].startswith(f"{channel}/messages/")


def test_no_two_channels_share_an_address() -> None:
    addresses = [channel["address"] for channel in CHANNEL_IDS.values()]
    assert len(addresses) == len(set(addresses))


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_the_catalogue_is_a_channel(row: Channel) -> None:
    channel = CHANNEL_IDS[channel_id(row)]
    assert channel["address"] == address(row)
    assert row.tag in channel["messages"]
    assert row.writer in channel["x-berth-writers"]


def test_there_is_no_channel_beside_the_catalogue() -> None:
    names = {channel_id(row) for row in CHANNELS}
    assert {name.removesuffix(".all") for name in CHANNEL_IDS} == names


def test_a_question_has_an_answer_and_everything_else_can_be_followed() -> None:
    for operation in OPERATIONS.values():
        assert ("reply" in operation) == (operation["action"] == "send")
    asked = {op["channel"]["$ref"] for op in OPERATIONS.values() if op["action"] == "send"}
    assert asked == {f"#/channels/{name}" for name in CHANNEL_IDS if name.startswith("svc.")}


@pytest.mark.parametrize("tag", sorted(MESSAGES))
def test_a_payload_accepts_what_was_recorded_and_nothing_else(tag: str) -> None:
    schema = {**MESSAGES[tag]["payload"], "components": DOCUMENT["components"]}
    validator = jsonschema_rs.Draft7Validator(schema)
    for message in json.loads((RECORDED / f"{tag}.json").read_text()).values():
        validator.validate(message)
        assert not validator.is_valid({**message, "type": "other.seen.v1"})
