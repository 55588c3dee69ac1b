"""The contract's page shows what works."""

import doctest
import json
import re
from pathlib import Path

from berth.contracts import buckets, question
from berth.contracts.catalogue import CHANNELS
from berth.contracts.codec import decode

ROOT = Path(__file__).parents[2]
README = (ROOT / "proto/README.md").read_text()
SHELL = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))


def test_the_python_example_does_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    parsed = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "README", None, 0)
    report: list[str] = []
    result = doctest.DocTestRunner().run(parsed, out=report.append)
    assert result.attempted > 5
    assert result.failed == 0, "".join(report)


def test_the_page_names_buckets_tags_and_files_that_exist() -> None:
    names = {value for name, value in vars(buckets).items() if name.isupper()}
    assert set(re.findall(r"\bberth_[a-z]+\b", README)) <= names
    tags = {channel.tag for channel in CHANNELS}
    assert set(re.findall(r"\b[a-z]+\.[a-z]+\.v1\b", README.replace("berth.v1", ""))) <= tags
    for path in re.findall(r"\b(?:k8s|tests|tools)/[\w./-]+\w", README):
        assert (ROOT / path.split("<")[0]).exists(), path


def test_the_subjects_of_the_command_lines_exist() -> None:
    asked = re.search(r"nats req (\S+)\.all '([^']+)'", SHELL)
    assert asked is not None
    (channel,) = [each for each in CHANNELS if each.message is question.WhyQuestion]
    assert asked[1] == channel.pattern
    assert decode(asked[2].encode(), question.WhyQuestion).name == "train.0"
    assert json.loads(asked[2])["type"] == channel.tag
    watched = re.search(r"nats sub '([^']+)>'", SHELL)
    assert watched is not None
    assert any(each.pattern.startswith(watched[1]) for each in CHANNELS if each.place == buckets.EVENTS)
