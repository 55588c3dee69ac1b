"""What is generated from the contract is up to date, valid, and says the same as the code."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.contracts import generate
from berth.contracts.catalogue import CHANNELS

ROOT = Path(__file__).parents[2]
SCHEMAS = {path.name.removesuffix(".json"): json.loads(path.read_text()) for path in (ROOT / "proto/schemas").iterdir()}
MESSAGES = {channel.tag: channel.message for channel in CHANNELS}
RECORDED = {
    path.name.removesuffix(".json"): json.loads(path.read_text())
    for path in (ROOT / "tests/proto/recorded").glob("*.json")
}
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
WORDS = {
    *("$schema", "$ref", "$defs", "title", "description", "type", "properties", "required", "default", "enum"),
    *("items", "additionalProperties", "anyOf", "minimum", "maximum", "maxItems", "maxLength"),
}
"""The words of JSON Schema 2020-12 that the checker below understands; a schema with another one fails."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout with nothing but what is generated."""
    for folder in ("proto/schemas", "k8s/crds"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name in ("proto/SUBJECTS.md", "proto/asyncapi.json"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def check(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The files that the check names."""
    capsys.readouterr()
    rc = generate.main(["--check"], root)
    named = re.findall(r"^(\S+) is not what the contract says", capsys.readouterr().err, re.MULTILINE)
    assert rc == (1 if named else 0)
    return named


def test_the_command_finds_this_checkout_up_to_date() -> None:
    command = [sys.executable, "-m", "berth.contracts.generate", "--check"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_copy_is_up_to_date(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(copy, capsys) == []


@pytest.mark.parametrize(
    "name",
    [
        "proto/schemas/pod.seen.v1.json",
        "proto/SUBJECTS.md",
        "proto/asyncapi.json",
        "k8s/crds/podgroups.scheduling.sigs.k8s.io.json",
    ],
)
def test_drift_is_noticed_and_repaired(name: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (copy / name).read_text()
    for damage in (whole + "\n", whole.replace("e", "f", 1), ""):
        (copy / name).write_text(damage)
        assert check(copy, capsys) == [name]
    (copy / name).unlink()
    assert check(copy, capsys) == [name]
    assert generate.main([], copy) == 0
    assert (copy / name).read_text() == whole
    assert check(copy, capsys) == []


def test_a_schema_of_no_message_is_noticed_and_removed(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stranger = copy / "proto/schemas/pod.seen.v0.json"
    stranger.write_text("{}")
    assert check(copy, capsys) == ["proto/schemas/pod.seen.v0.json"]
    assert generate.main([], copy) == 0
    assert not stranger.exists()


def test_all_is_made_from_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(check(tmp_path, capsys)) > len(MESSAGES)
    assert generate.main([], tmp_path) == 0
    assert check(tmp_path, capsys) == []


def test_subjects_lists_every_channel() -> None:
    text = (ROOT / "proto/SUBJECTS.md").read_text()
    for channel in CHANNELS:
        assert f"| `{channel.tag}` | {channel.place} | `{channel.pattern}` | {channel.writer} |" in text


def test_every_message_has_a_schema() -> None:
    assert SCHEMAS.keys() == MESSAGES.keys()


def nodes(schema: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within a schema."""
    assert isinstance(schema, dict), path
    yield path, schema
    for word in ("properties", "$defs"):
        for name, inner in schema.get(word, {}).items():
            yield from nodes(inner, f"{path}.{word}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from nodes(schema[word], f"{path}.{word}")
    for index, inner in enumerate(schema.get("anyOf", [])):
        yield from nodes(inner, f"{path}.anyOf[{index}]")


def resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    head, name = schema["$ref"].rsplit("/", 1)
    assert head == "#/$defs"
    target = root["$defs"][name]
    assert isinstance(target, dict)
    return target


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str = "$") -> list[str]:
    """What a reader that has nothing but the schema finds wrong with a value."""
    schema = resolved(schema, root)
    if "anyOf" in schema:
        tries = [faults(value, each, root, path) for each in schema["anyOf"]]
        return [] if [] in tries else [f"{path}: fits none of anyOf"]
    found = []
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{path}: is no {kind}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: is none of {schema['enum']}")
    if (
        not schema.get("minimum", float("-inf"))
        <= (value if kind == "integer" else 0)
        <= schema.get("maximum", float("inf"))
    ):
        found.append(f"{path}: is out of range")
    if isinstance(value, list | str) and len(value) > schema.get("maxItems", schema.get("maxLength", float("inf"))):
        found.append(f"{path}: is too long")
    if isinstance(value, dict):
        found += [f"{path}: lacks {name}" for name in schema.get("required", []) if name not in value]
        more = schema.get("additionalProperties", True)
        for name, part in value.items():
            inner = schema.get("properties", {}).get(name, more)
            if inner is not True:
                found += faults(part, inner, root, f"{path}.{name}") if inner else [f"{path}.{name}: is unknown"]
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, part in enumerate(value):
            found += faults(part, schema["items"], root, f"{path}[{index}]")
    return found


@pytest.mark.parametrize("tag", sorted(SCHEMAS))
class TestSchema:
    def test_it_is_a_schema_of_the_dialect(self, tag: str) -> None:
        root = SCHEMAS[tag]
        assert root["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        for path, schema in nodes(root):
            assert schema.keys() <= WORDS, path
            assert "$schema" not in schema or path == "$", path
            assert schema.get("type", "object") in TYPES, path
            assert isinstance(resolved(schema, root), dict), path
            assert set(schema.get("required", [])) <= schema.get("properties", {}).keys(), path
            assert isinstance(schema.get("description", ""), str), path
            assert isinstance(schema.get("anyOf", [{}]), list), path
            assert schema.get("anyOf", [{}]), path

    def test_it_names_its_tag(self, tag: str) -> None:
        """A single value of an enum is a constant."""
        top = resolved(SCHEMAS[tag], SCHEMAS[tag])
        assert top["type"] == "object"
        assert top["properties"]["type"] == {"enum": [tag]}
        assert "type" in top["required"]

    def test_it_requires_what_the_message_requires(self, tag: str) -> None:
        top = resolved(SCHEMAS[tag], SCHEMAS[tag])
        fields = msgspec.structs.fields(MESSAGES[tag])
        assert top["properties"].keys() == {"type", *(field.encode_name for field in fields)}
        assert set(top["required"]) == {"type", *(field.encode_name for field in fields if field.required)}

    def test_it_lets_later_fields_pass(self, tag: str) -> None:
        for path, schema in nodes(SCHEMAS[tag]):
            assert schema.get("additionalProperties", True) is not False, path

    def test_it_accepts_recorded_messages(self, tag: str) -> None:
        for message in RECORDED[tag].values():
            assert faults(message, SCHEMAS[tag], SCHEMAS[tag]) == []

    def test_it_refuses_other_messages(self, tag: str) -> None:
        root = SCHEMAS[tag]
        full = RECORDED[tag]["full"]
        assert faults({**full, "type": "other.seen.v1"}, root, root)
        assert faults([full], root, root)
        for name in resolved(root, root)["required"]:
            assert faults({key: value for key, value in full.items() if key != name}, root, root)
        for name, schema in resolved(root, root)["properties"].items():
            if schema.keys() - {"default"}:  # else anything goes
                assert faults({**full, name: [[[]]]}, root, root), name
