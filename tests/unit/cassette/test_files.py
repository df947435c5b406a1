from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agentreplay.cassette import continuation_path, is_continuation, is_partial, partial_path

NAME = Path("folder/a.b[c].jsonl")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (partial_path(NAME), "a.b[c].partial.jsonl"),
        (partial_path(NAME, run="0123456789"), "a.b[c].01234567.partial.jsonl"),
        (continuation_path(NAME), "a.b[c].replay.jsonl"),
        (continuation_path(partial_path(NAME)), "a.b[c].replay.jsonl"),
        (continuation_path(continuation_path(NAME)), "a.b[c].replay.replay.jsonl"),
        (partial_path(continuation_path(NAME), run="0123456789"), "a.b[c].replay.01234567.partial.jsonl"),
    ],
)
def test_a_file_beside_a_cassette_is_named_after_it(path: Path, name: str) -> None:
    assert path == NAME.with_name(name)


def test_a_file_is_known_by_its_name() -> None:
    others = [NAME, NAME.with_name("partial.jsonl"), NAME.with_name("replay.jsonl"), NAME.with_name("a.partial.json")]

    assert is_partial(partial_path(NAME))
    assert is_partial(partial_path(continuation_path(NAME), run="0123456789"))
    assert is_continuation(continuation_path(NAME))
    assert not any(is_partial(path) or is_continuation(path) for path in others)
    assert not is_partial(continuation_path(NAME))
    assert not is_continuation(partial_path(NAME))
