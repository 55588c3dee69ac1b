"""Which ratios a node is to show, whoever wrote what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.names import (
    ANNOTATION_AMPLIFICATION_RATIO as AMPLIFIED,
)
from berth.contracts.names import (
    ANNOTATION_CPU_NORMALIZATION_RATIO as NORMALISED,
)
from berth.contracts.names import (
    LABEL_CPU_NORMALIZATION_ENABLED as LABEL,
)
from berth.contracts.state import Node
from berth.rules.node_strategies.config import Config, read_config
from berth.slo_manager.core.ratios import Ratios, ratios_of

CPU = '{"cpuModel":"A","hyperThreadEnabled":true,"turboEnabled":true}'
MODEL = {"A": {"hyperThreadTurboEnabledRatio": 1.2}}


def config(normalization: Any = None, amplification: Any = None, previous: Config | None = None) -> Config:
    documents = {"cpu-normalization-config": normalization, "resource-amplification-config": amplification}
    texts = {
        key: each if isinstance(each, str) else json.dumps(each) for key, each in documents.items() if each is not None
    }
    return read_config(texts, previous.sections if previous is not None else {})


ON = {"enable": True, "ratioModel": MODEL}
AMPLIFY = {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 2}}


def decide(
    how: Config,
    shown: dict[str, str] | None = None,
    *,
    cpu: str | None = CPU,
    before: dict[str, str | None] | None = None,
    **labels: str,
) -> Ratios:
    named = {LABEL if name == "label" else name: value for name, value in labels.items()}
    node = Node(name="n", uid="u", version=1, labels=named, annotations=shown or {})
    return ratios_of(node, cpu, how, before or {})


def test_both_ratios_are_decided_at_once() -> None:
    found = decide(config(ON, AMPLIFY))
    assert found.wanted == {NORMALISED: "1.20", AMPLIFIED: '{"cpu":1.80,"memory":2.00}'}
    assert found.wanted == found.lacking == found.record
    assert found.problems == []


def test_what_the_node_shows_already_lacks_nothing() -> None:
    how = config(ON, AMPLIFY)
    shown = dict(decide(how).lacking)
    again = decide(how, shown, before=shown)
    assert again.lacking == {}
    assert again.record == shown


def test_a_hundredth_more_or_less_is_no_reason_to_write() -> None:
    found = decide(config({"enable": True, "defaultRatio": 1.2}), {NORMALISED: "1.208"})
    assert found.wanted[NORMALISED] == "1.20"
    assert found.lacking == {AMPLIFIED: '{"cpu":1.21}'}, "by the ratio that stands there"


def test_another_notation_is_no_reason_to_write() -> None:
    how = config(None, AMPLIFY)
    assert decide(how, {AMPLIFIED: '{ "memory": 2, "cpu": 1.5 }'}).lacking == {}


def test_without_keys_and_label_nothing_is_touched() -> None:
    for shown in ({}, {NORMALISED: "3.00", AMPLIFIED: '{"cpu":3.00}'}, {NORMALISED: "?", AMPLIFIED: "?"}):
        assert decide(config(), shown) == Ratios({}, {}, {}, {}, [])


def test_switched_off_says_so_and_takes_the_amplification_away() -> None:
    shown = {NORMALISED: "1.20", AMPLIFIED: '{"cpu":1.20}'}
    assert decide(config({"enable": False}), shown).lacking == {NORMALISED: "1.00", AMPLIFIED: None}
    assert decide(config(ON), shown, label="false").lacking == {NORMALISED: "1.00", AMPLIFIED: None}


def test_the_label_switches_on_what_the_strategy_has_off() -> None:
    assert decide(config({"enable": False, "defaultRatio": 2}), label="true").wanted[NORMALISED] == "2.00"


def test_the_first_selector_that_matches_is_laid_over_the_cluster() -> None:
    pool = {"matchLabels": {"pool": "a"}}
    how = config(
        {
            **ON,
            "nodeConfigs": [
                {"name": "nobody", "enable": False},
                {"name": "a", "nodeSelector": pool, "ratioModel": {"A": {"baseRatio": 3}, "B": {}}},
                {"name": "late", "nodeSelector": pool, "enable": False},
            ],
        },
        {
            "enable": True,
            "nodeConfigs": [{"name": "b", "nodeSelector": pool, "resourceAmplificationRatio": {"cpu": 2}}],
        },
    )
    found = decide(how, pool="a")
    assert found.wanted == {NORMALISED: "1.20", AMPLIFIED: '{"cpu":2.40}'}
    assert found.strategies == {"cpuNormalization": "a", "resourceAmplification": "b"}
    assert [problem.field for problem in found.problems] == ["cpuNormalization"], "a second strategy matches, too"
    assert decide(how, cpu='{"cpuModel":"A"}', pool="a").wanted[NORMALISED] == "3.00"
    assert decide(how).wanted == {NORMALISED: "1.20", AMPLIFIED: '{"cpu":1.20}'}


@pytest.mark.parametrize(
    ("how", "cpu", "label", "field"),
    [
        (config(ON), None, None, "cpu-basic-info"),
        (config(ON), "{", None, "cpu-basic-info"),
        (config(ON), CPU, "maybe", f"metadata.labels[{LABEL}]"),
        (config({"enable": True}), CPU, None, "data[cpu-normalization-config].ratioModel"),
        (config({"enable": True, "defaultRatio": 0.82}), CPU, None, "data[cpu-normalization-config].ratioModel"),
        (config({"enable": True, "defaultRatio": 5.01}), CPU, None, "data[cpu-normalization-config].ratioModel"),
    ],
)
def test_what_cannot_be_said_stays_as_it_is_and_is_named(
    how: Config, cpu: str | None, label: str | None, field: str
) -> None:
    labels = {} if label is None else {"label": label}
    for before in ({}, {NORMALISED: "1.10"}):
        found = decide(how, {NORMALISED: "1.10", AMPLIFIED: '{"cpu":1.10}'}, cpu=cpu, before=before, **labels)
        assert NORMALISED not in found.lacking
        assert found.record.get(NORMALISED) == before.get(NORMALISED)
        assert [field in problem.field for problem in found.problems] == [True]
        assert found.wanted == {AMPLIFIED: '{"cpu":1.10}'}, "what the node shows goes on counting"


def test_a_ratio_below_one_in_the_end_names_its_resource() -> None:
    how = config(None, {"enable": True, "resourceAmplificationRatio": {"cpu": 0.5}})
    found = decide(how, {AMPLIFIED: '{"cpu":9.00}'})
    assert (found.wanted, found.lacking) == ({}, {})
    assert [each.field for each in found.problems] == [
        "data[resource-amplification-config].resourceAmplificationRatio[cpu]"
    ]
    assert decide(config(ON, {"enable": True, "resourceAmplificationRatio": {"cpu": 0.9}})).wanted[AMPLIFIED] == (
        '{"cpu":1.08}'
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"enable":"yes"}', '{"ratioModel":{"A":{"baseRatio":"1"}}}', "{" * 9999])
def test_a_key_that_cannot_be_used_keeps_what_it_said(text: str) -> None:
    good = config(ON, AMPLIFY)
    bad = config(text, AMPLIFY, previous=good)
    assert [each.field.startswith("data[cpu-normalization-config]") for each in bad.problems] == [True]
    assert bad.unusable == ("cpu-normalization-config",)
    assert decide(bad).wanted == decide(good).wanted
    never_read = config(text, "{")
    shown = {NORMALISED: "1.20", AMPLIFIED: '{"cpu":1.80,"memory":2.00}'}
    found = decide(never_read, shown, before=dict(shown))
    assert (found.wanted, found.lacking, found.record) == ({}, {}, shown)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"ratioModel": {"A": {"baseRatio": "x"}}}, "ratioModel"),
        ({"nodeConfigs": [{"enable": 1}]}, "nodeConfigs[0].enable"),
        ({"nodeConfigs": {}}, "nodeConfigs"),
        ({"defaultRatio": "1"}, "defaultRatio"),
    ],
)
def test_the_field_is_named(document: dict[str, Any], field: str) -> None:
    (problem,) = config(document).problems
    assert problem.field.startswith(f"data[cpu-normalization-config].{field}")


def test_what_we_wrote_goes_with_its_key() -> None:
    ours = {NORMALISED: "1.20", AMPLIFIED: '{"cpu":1.20}'}
    found = decide(config(), ours, before=dict(ours))
    assert found.lacking == {NORMALISED: None, AMPLIFIED: None}
    assert found.record == ours, "until it is gone"
    assert decide(config(), {}, before=dict(ours)) == Ratios({}, {}, {}, {}, [])


def test_what_another_wrote_over_it_stays() -> None:
    ours: dict[str, str | None] = {NORMALISED: "1.20", AMPLIFIED: '{"cpu":1.20}'}
    assert decide(config(), {NORMALISED: "1.50", AMPLIFIED: "?"}, before=ours) == Ratios({}, {}, {}, {}, [])


def test_amplification_without_normalisation_heeds_what_another_manager_shows() -> None:
    assert decide(config(None, AMPLIFY), {NORMALISED: "2.00"}).lacking == {AMPLIFIED: '{"cpu":3.00,"memory":2.00}'}
    (problem,) = decide(config(None, AMPLIFY), {NORMALISED: "0"}).problems
    assert problem.field == f"metadata.annotations[{NORMALISED}]"


TEXTS = st.one_of(st.none(), st.sampled_from(["1.20", "1.00", "x", "", "0", "-1", '{"cpu":1.20}', "[]", "null", "{}"]))
RATIOS = st.one_of(st.none(), st.floats(0, 10), st.floats())
DOCUMENTS = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.fixed_dictionaries(
        {"enable": st.booleans()},
        optional={
            "defaultRatio": RATIOS,
            "ratioModel": st.dictionaries(st.sampled_from("AB"), st.fixed_dictionaries({"baseRatio": RATIOS})),
            "resourceAmplificationRatio": st.dictionaries(st.sampled_from(["cpu", "memory", ""]), RATIOS),
        },
    ),
)


@given(DOCUMENTS, DOCUMENTS, TEXTS, TEXTS, TEXTS, st.one_of(st.none(), st.sampled_from(["true", "false", "?"])))
def test_once_shown_nothing_more_is_written(
    normalization: Any, amplification: Any, one: str | None, other: str | None, cpu: str | None, label: str | None
) -> None:
    how = config(normalization, amplification)
    shown = {name: text for name, text in ((NORMALISED, one), (AMPLIFIED, other)) if text is not None}
    labels = {} if label is None else {"label": label}
    first = decide(how, shown, cpu=cpu or CPU, **labels)
    after = {name: text for name, text in {**shown, **first.lacking}.items() if text is not None}
    second = decide(how, after, cpu=cpu or CPU, before=dict(first.record), **labels)
    assert second.lacking == {}
    assert first.lacking.items() <= first.wanted.items()
