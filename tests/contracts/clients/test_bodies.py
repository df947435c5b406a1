"""What clients send: it arrives as it does without a recorder, and is known again in replay."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from tests.contracts.clients.conftest import Case
from tests.contracts.clients.drivers import Ask, Driver, Got
from tests.contracts.clients.features import every_client
from tests.support.taps import lines_of

BIG = bytes(range(256)) * 300


def sent(got: Got) -> bytes:
    return base64.b64decode(json.loads(got.body)["body"])


@every_client("bodies")
def test_json_is_sent_and_known_again(driver: Driver, case: Case) -> None:
    value = {"model": "m", "messages": [{"role": "user", "content": "grün"}]}

    live, replayed = case.both(lambda: driver.ask(Ask(case.url, "POST", json=value)))

    assert json.loads(sent(live[0])) == value
    assert replayed[0].body == live[0].body
    [line] = lines_of(case.path)
    assert line["request"]["fields"] == {"model": "m"}


@every_client("bodies")
def test_a_form_is_sent_and_known_again(driver: Driver, case: Case) -> None:
    live, replayed = case.both(lambda: driver.ask(Ask(case.url, "POST", form={"a": "1", "b": "two words"})))

    assert sent(live[0]) == b"a=1&b=two+words"
    assert replayed[0].body == live[0].body
    [line] = lines_of(case.path)
    assert line["request"]["body"] == {"kind": "form", "pairs": [["a", "1"], ["b", "two words"]]}


@every_client("bodies")
@pytest.mark.parametrize("content", [b"\x00\xff raw", BIG], ids=["small", "big"])
def test_bytes_are_sent_and_known_again(driver: Driver, case: Case, content: bytes) -> None:
    headers = {"Content-Type": "application/octet-stream"}

    live, replayed = case.both(lambda: driver.ask(Ask(case.url, "POST", content=content, headers=headers)))

    assert sent(live[0]) == content
    assert replayed[0].body == live[0].body


@every_client("bodies")
def test_an_open_file_is_sent_whole_and_known_again(driver: Driver, case: Case) -> None:
    live, replayed = case.both(lambda: driver.ask(Ask(case.url, "PUT", file=BIG)))

    assert sent(live[0]) == BIG
    assert replayed[0].body == live[0].body


@every_client("bodies")
def test_a_request_without_a_body_is_known_again(driver: Driver, case: Case) -> None:
    asks = [Ask(f"{case.url}/a?x=1", method) for method in ("GET", "POST", "DELETE")]

    live, replayed = case.both(lambda: driver.ask(*asks))

    assert [sent(got) for got in live] == [b"", b"", b""]
    assert [got.body for got in replayed] == [got.body for got in live]


@every_client("iterators")
def test_what_an_iterator_gives_is_sent_in_chunks_and_known_again(driver: Driver, case: Case) -> None:
    live, replayed = case.both(lambda: driver.ask(Ask(case.url, "POST", blocks=[b"one ", b"two ", BIG])))

    assert sent(live[0]) == b"one two " + BIG
    assert case.server.seen[0].headers.get("transfer-encoding") == "chunked"
    assert replayed[0].body == live[0].body


@every_client("multipart")
def test_files_of_a_multipart_body_are_known_again_whatever_the_boundary(driver: Driver, case: Case) -> None:
    files = {"one": ("a.txt", b"first"), "two": ("b.bin", BIG)}

    live, replayed = case.both(lambda: driver.ask(Ask(case.url, "POST", files=files)))

    assert b"first" in sent(live[0])
    assert BIG in sent(live[0])
    assert replayed[0].body == live[0].body
    [line] = lines_of(case.path)
    assert [part["size"] for part in line["request"]["body"]["parts"]] == [5, len(BIG)]


@every_client("encodings")
def test_a_request_in_gzip_is_known_by_what_is_in_it(driver: Driver, case: Case) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    asked = [
        Ask(case.url, "POST", content=gzip.compress(b'{"a":1}', level, mtime=level), headers=headers)
        for level in (1, 9)
    ]

    live = case.record(lambda: driver.ask(asked[0]))
    replayed = case.replay(lambda: driver.ask(asked[1]))

    assert gzip.decompress(sent(live[0])) == b'{"a":1}'
    assert replayed[0].body == live[0].body
