"""The catalogue lists every message, once per way it travels, and says what the services really do."""

import ast
import functools
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from berth import contracts
from berth.cluster_watcher.kinds import CONFIG_MAPS, KINDS, WEBHOOKS
from berth.contracts import buckets, command, event, ledger, state, subjects
from berth.contracts.base import Message, Part
from berth.contracts.catalogue import CHANNELS, Channel
from berth.contracts.kube import View

ROOT = Path(__file__).parents[2]
SERVICES = sorted(path.name for path in (ROOT / "services").iterdir() if (path / "src").is_dir())
TAG = re.compile(r"[a-z]+\.[a-z]+\.v[1-9][0-9]*")
TOKEN = re.compile(r"[a-z0-9-]+|e?<[a-z]+>")
STREAMS = {buckets.COMMANDS: "berth.v1.cmd.", buckets.EVENTS: "berth.v1.evt."}
ASKED = ("request", "reply")

for _module in pkgutil.iter_modules(contracts.__path__):
    importlib.import_module(f"berth.contracts.{_module.name}")


def subclasses(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def of_contract(kind: type) -> list[type]:
    """In an order that is the same in every worker, whatever each has imported first."""
    found = [each for each in subclasses(kind) if each.__module__.startswith("berth.contracts.")]
    return sorted(found, key=lambda each: (each.__module__, each.__qualname__))


STRUCTS = [each for each in of_contract(msgspec.Struct) if each not in (Message, Part, View)]
BUILT = {
    "pod.<namespace>.<name>": subjects.pod_key("NAMESPACE", "NAME"),
    **{
        f"{kind}.<namespace>.<name>": subjects.namespaced_key(kind, "NAMESPACE", "NAME")
        for kind in (
            "configmap",
            "poddisruptionbudget",
            "service",
            "replicationcontroller",
            "replicaset",
            "statefulset",
            "podgroup",
            "elasticquota",
            "elasticquotaprofile",
            "persistentvolumeclaim",
            "csistoragecapacity",
        )
    },
    **{
        f"{kind}.<name>": subjects.named_key(kind, "NAME")
        for kind in (
            "node",
            "namespace",
            "priorityclass",
            "reservation",
            "reservationschedule",
            "noderesourcetopology",
            "clusternetworktopology",
            "topology",
            "network",
            "domains",
            "nodemetric",
            "nodeslo",
            "persistentvolume",
            "storageclass",
            "csinode",
            "csidriver",
            "volumeattachment",
            "clustercolocationprofile",
            "mutatingwebhookconfiguration",
            "validatingwebhookconfiguration",
        )
    },
    "report.<name>": subjects.named_key("report", "NAME"),
    "runtime.<name>": subjects.named_key("runtime", "NAME"),
    "device.<node>": subjects.named_key("device", "NODE"),
    "synced.<kind>": subjects.synced_key("KIND"),
    "group.<tree>.<name>": subjects.quota_key("TREE", "NAME"),
    "pressure.<name>": subjects.named_key("pressure", "NAME"),
    "pod.<node>.<uid>": subjects.node_pod_key("NODE", "UID"),
    "offer.<name>": subjects.named_key("offer", "NAME"),
    "charge.<class>": subjects.charge_key("CLASS"),
    "prices.<solver>": subjects.prices_key("SOLVER"),
    "epoch": subjects.EPOCH_KEY,
    "e<epoch>.decision.<namespace>.<name>": subjects.decision_key(7, "NAMESPACE", "NAME"),
    "e<epoch>.account.<account>": subjects.account_key(7, "ACCOUNT"),
    "e<epoch>.plan.<id>": subjects.plan_key(7, "ID"),
}
"""What the builder of each key gives for names that stand for themselves."""


def filled(pattern: str) -> str:
    return re.sub("<([a-z]+)>", lambda match: "7" if match[1] == "epoch" else match[1].upper(), pattern)


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: f"{kind.__module__.split('.')[-1]}.{kind.__name__}")
def test_a_struct_is_a_message_of_the_catalogue_or_a_part(kind: type[msgspec.Struct]) -> None:
    listed = [channel for channel in CHANNELS if channel.message is kind]
    if issubclass(kind, (Part, View)):
        assert kind.__struct_config__.tag is None
        assert not listed
        return
    assert issubclass(kind, Message)
    assert kind.__struct_config__.tag_field == "type"
    assert TAG.fullmatch(str(kind.__struct_config__.tag))
    assert listed, "is not in the catalogue"
    assert len({channel.place for channel in listed}) == 1
    if listed[0].place not in STREAMS:
        assert len(listed) == 1


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: f"{kind.__module__.split('.')[-1]}.{kind.__name__}")
def test_a_struct_says_what_it_is_and_cannot_change(kind: type[msgspec.Struct]) -> None:
    config = kind.__struct_config__
    assert kind.__doc__
    assert config.frozen
    assert config.omit_defaults
    assert not config.forbid_unknown_fields
    assert not config.array_like


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: f"{channel.tag}-{channel.pattern}")
def test_class_tag_and_subject_say_the_same(channel: Channel) -> None:
    """State is `<class>.seen` by the watcher or `<class>.set` by its owner; all else is named by noun and verb."""
    noun, verb, _ = channel.tag.split(".")
    name, tokens = channel.message.__name__.lower(), channel.pattern.split(".")
    if channel.place == buckets.EVENTS:
        assert (name, tokens[3:5]) == (noun + verb, [noun, verb])
    elif channel.place == buckets.COMMANDS:
        assert (name, tokens[3]) == (verb + noun, verb)
        assert tokens[4].endswith("s"), "the resource by its plural, as in the API"
    elif channel.place in ASKED:
        assert (name, tokens[-1]) == (noun + verb, noun)
    else:
        assert name == noun
        assert verb == ("seen" if channel.place == buckets.STATE and tokens[0] == noun and noun != "synced" else "set")


def test_no_two_messages_share_a_tag() -> None:
    tags = [str(kind.__struct_config__.tag) for kind in of_contract(Message)]
    assert len(tags) == len(set(tags))


def test_no_way_is_listed_twice() -> None:
    assert len(CHANNELS) == len(set(CHANNELS))


def test_a_key_or_subject_carries_one_message() -> None:
    """A reader of a subject knows from it what to decode."""
    travels = [channel for channel in CHANNELS if channel.place not in ASKED]
    messages: dict[tuple[str, str], set[type]] = {}
    for channel in travels:
        messages.setdefault((channel.place, re.sub("<[a-z]+>", "*", channel.pattern)), set()).add(channel.message)
    assert {place: kinds for place, kinds in messages.items() if len(kinds) > 1} == {}


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: f"{channel.tag}-{channel.pattern}")
class TestChannel:
    def test_its_place_exists(self, channel: Channel) -> None:
        known = {value for name, value in vars(buckets).items() if name.isupper()}
        assert channel.place in known | set(ASKED)

    def test_its_pattern_is_well_formed(self, channel: Channel) -> None:
        assert all(TOKEN.fullmatch(token) for token in channel.pattern.removeprefix("berth.v1.").split("."))

    def test_its_pattern_has_a_builder(self, channel: Channel) -> None:
        pattern = channel.pattern
        tokens = filled(pattern).split(".")
        if channel.place == buckets.EVENTS:
            assert subjects.event_subject(*tokens[3:]) == ".".join(tokens)
        elif channel.place == buckets.COMMANDS:
            assert subjects.command_subject(*tokens[3:]) == ".".join(tokens)
        elif channel.place in ASKED:
            assert subjects.question_subject(*tokens[3:]) == ".".join(tokens)
        else:
            assert BUILT[pattern] == filled(pattern)

    def test_its_writer_exists(self, channel: Channel) -> None:
        assert channel.writer in {*SERVICES, "anybody", "every service"}
        assert channel.writer in SERVICES or channel.place in (*STREAMS, *ASKED)

    def test_a_subject_of_a_stream_begins_as_the_stream_wants(self, channel: Channel) -> None:
        if channel.place in STREAMS:
            assert channel.pattern.startswith(STREAMS[channel.place])


def test_every_builder_of_a_key_is_needed() -> None:
    assert BUILT.keys() == {channel.pattern for channel in CHANNELS if channel.place not in (*STREAMS, *ASKED)}


@pytest.mark.parametrize(
    "bucket", [buckets.STATE, buckets.INVENTORY, buckets.QUOTA, buckets.RESERVATION, buckets.METRICS]
)
def test_a_bucket_has_one_writer(bucket: str) -> None:
    assert len({channel.writer for channel in CHANNELS if channel.place == bucket}) == 1


@pytest.mark.parametrize(
    ("union", "place"),
    [(command.Command, buckets.COMMANDS), (event.Event, buckets.EVENTS), (ledger.LedgerEntry, buckets.LEDGER)],
)
def test_a_union_holds_all_that_travels_in_its_place(union: object, place: str) -> None:
    assert set(union.__args__) == {channel.message for channel in CHANNELS if channel.place == place}  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [*KINDS, CONFIG_MAPS, *WEBHOOKS], ids=lambda kind: kind.prefix)
def test_the_watcher_writes_each_kind_where_the_catalogue_says(kind: object) -> None:
    (channel,) = [each for each in CHANNELS if each.message is kind.message]  # type: ignore[attr-defined]
    names = re.findall("<([a-z]+)>", channel.pattern)
    namespace = "NAMESPACE" if len(names) == 2 else ""
    assert kind.key(namespace, names[-1].upper()) == filled(channel.pattern)  # type: ignore[attr-defined]


def test_the_watcher_writes_every_message_of_state() -> None:
    listed = {channel.message for channel in CHANNELS if channel.place == buckets.STATE}
    assert listed == {kind.message for kind in (*KINDS, CONFIG_MAPS, *WEBHOOKS)} | {state.Synced}


# --- what the services' sources say --------------------------------------------------------------------------------

ANY, REST = "*", ">"
BUILDERS = {"event_subject": "berth.v1.evt", "command_subject": "berth.v1.cmd"}


@functools.cache
def built_by(service: str) -> tuple[str, ...]:
    """Subjects that a service builds: literals as they stand, `*` for anything else, `>` for a list of names."""
    found = []
    for path in sorted((ROOT / "services" / service / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in BUILDERS:
                    found.append(".".join([BUILDERS[name], *map(token_of, node.args)]))
    return tuple(found)


def token_of(argument: ast.expr) -> str:
    if isinstance(argument, ast.Starred):
        return REST
    is_literal = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    return str(argument.value) if is_literal else ANY  # type: ignore[attr-defined]


def agree(built: str, pattern: str) -> bool:
    """Whether a subject that was built so may be one of the pattern. A literal never stands in the place of a name."""
    tokens, wanted = built.split("."), pattern.split(".")
    if tokens[-1] == REST:
        tokens[-1:] = [ANY] * max(1, len(wanted) - len(tokens) + 1)
    return len(tokens) == len(wanted) and all(token in (ANY, want) for token, want in zip(tokens, wanted, strict=True))


def test_agreement_is_strict() -> None:
    pattern = "berth.v1.cmd.patch.nodes.<name>"
    assert agree("berth.v1.cmd.patch.nodes.*", pattern)
    assert agree("berth.v1.cmd.patch.>", pattern)
    assert not agree("berth.v1.cmd.patch.node.*", pattern)
    assert not agree("berth.v1.cmd.patch.nodes.*.*", pattern)
    assert not agree("berth.v1.cmd.patch.nodes", pattern)
    assert not agree("berth.v1.cmd.patch.nodes.literal", pattern)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_publishes_what_the_catalogue_says(service: str) -> None:
    patterns = [channel.pattern for channel in CHANNELS if channel.writer == service and channel.place in STREAMS]
    unlisted = [built for built in built_by(service) if not any(agree(built, pattern) for pattern in patterns)]
    assert unlisted == []


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_publishes_all_that_the_catalogue_says(service: str) -> None:
    patterns = [channel.pattern for channel in CHANNELS if channel.writer == service and channel.place in STREAMS]
    unsent = [pattern for pattern in patterns if not any(agree(built, pattern) for built in built_by(service))]
    assert unsent == []


def test_every_service_answers_for_its_status() -> None:
    for service in SERVICES:
        source = "\n".join(path.read_text() for path in (ROOT / "services" / service / "src").rglob("*.py"))
        serves = "serve_status(" in source or re.search(r"\((Manager|Replica)\[", source)
        assert serves, f"{service} serves no status"
