"""The readers of diagrams that other tests rely on: they see what mermaid sees, and refuse what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import mermaid
from tests.support.mermaid import DiagramError, Flowchart, Sequence, draw_diagrams, read_diagrams

CHARGE = """\
flowchart TD
  start([user])
  n0["LLM"]
  start --> n0
  n1["tool: charge"]
  n0 --> n1
  n1 -- "then" --> done([done])
"""

ASKING = """\
sequenceDiagram
  participant p0 as planner
  participant p1 as tea #59; cake
  p0->>p1: tool: charge
  p1-->>p0: #123;#125;
  Note over p0,p1: a<br/>b
"""

LABELS = {
    "a#34;b": 'a"b',
    "#35;34#59;": "#34;",
    "#38;lt#59;": "&lt;",
    "#60;b>x#60;/b>": "<b>x</b>",
    "a > b & c": "a > b & c",
    "#lt;#amp;": "<&",
    "one#10;two": "one\ntwo",
    "#37;%{init#58; {}}%#37;": "%%{init: {}}%%",
    "end": "end",
    "[(a)] {b}": "[(a)] {b}",
    "\u2028x": "\u2028x",
    "שלום \u202eabc": "שלום \u202eabc",
    "👩‍👩‍👧 𐍈": "👩‍👩‍👧 𐍈",
    "#128105;": "👩",
    "x#32;": "x ",
    # what a browser makes other characters of
    "#0;#13;#133;": "\x00\r\x85",
    "#55296;": "\ud800",
    "#55357;#56832;": "\ud83d\ude00",
}

TEXTS = {
    "a#34;b #35;34#59;": 'a"b #34;',
    "#60;b>": "<b>",
    "a & b > c": "a & b > c",
    "#55357;#56832;": "\ud83d\ude00",
    "#lt;": "<",
}

RAW = ['%%{init: {"theme": "dark"}}%%', "direction LR", "style:#34;x#34;", "#quot;", "<i>x</i>"]

LOOP = "sequenceDiagram\n  participant p0 as a\n  p0->>p0: x\nloop y\n  p0->>p0: z\nend\n"


def flowchart(label: str) -> str:
    return f'flowchart TD\n  n0["tool: {label}"]\n  n0 --> done([done])\n'


def sequence(text: str) -> str:
    return f"sequenceDiagram\n  participant p0 as {text}\n  p0->>p0: {text}\n  Note over p0: {text}\n"


@pytest.fixture(scope="module")
def read() -> dict[str, Flowchart | Sequence]:
    texts = [CHARGE, ASKING, LOOP, *map(sequence, TEXTS)]
    texts += [flowchart(label) for label in (*LABELS, *RAW, *map(str, range(100)))]
    return dict(zip(texts, read_diagrams(texts), strict=True))


def test_a_flowchart_comes_back_as_its_labels_and_edges(read: dict[str, Flowchart | Sequence]) -> None:
    assert read[CHARGE] == Flowchart(
        labels={"start": "user", "n0": "LLM", "n1": "tool: charge", "done": "done"},
        edges=(("start", "n0", ""), ("n0", "n1", ""), ("n1", "done", "then")),
        direction="TB",
        config={},
    )


def test_a_sequence_diagram_comes_back_as_its_participants_messages_and_notes(
    read: dict[str, Flowchart | Sequence],
) -> None:
    assert read[ASKING] == Sequence(
        participants={"p0": "planner", "p1": "tea ; cake"},
        messages=(("p0", "p1", "tool: charge", "->>"), ("p1", "p0", "{}", "-->>")),
        notes=(("p0", "p1", "a\nb"),),
        config={},
    )


def test_labels_come_back_decoded(read: dict[str, Flowchart | Sequence]) -> None:
    labels = {written: read[flowchart(written)].labels["n0"] for written in LABELS}

    assert labels == {written: f"tool: {name}" for written, name in LABELS.items()}


def test_texts_of_sequence_diagrams_come_back_decoded(read: dict[str, Flowchart | Sequence]) -> None:
    for written, name in TEXTS.items():
        diagram = read[sequence(written)]

        assert diagram == Sequence({"p0": name}, (("p0", "p0", name, "->>"),), (("p0", "p0", name),), {})


def test_what_a_raw_name_does_to_a_diagram_is_seen(read: dict[str, Flowchart | Sequence]) -> None:
    directive, direction, style, entity, markup = (read[flowchart(name)] for name in RAW)

    assert directive.config == {"theme": "dark"}
    assert direction.labels["n0"] == "n0"
    assert style.labels["n0"] == 'tool: style:"x#34'
    assert entity.labels["n0"] == 'tool: "'
    assert markup.labels["n0"] == "tool: x"


def test_a_statement_that_is_no_message_is_seen(read: dict[str, Flowchart | Sequence]) -> None:
    arrows = [arrow for *_, arrow in read[LOOP].messages]

    assert arrows == ["->>", "LOOP_START", "->>", "LOOP_END"]


def test_many_diagrams_come_back_in_their_order(read: dict[str, Flowchart | Sequence]) -> None:
    labels = [diagram.labels["n0"] for diagram in list(read.values())[-100:]]

    assert labels == [f"tool: {number}" for number in range(100)]


@pytest.mark.parametrize("text", ['flowchart TD\n  n0["a"b"]\n', "sequenceDiagram\n  p0->>p1: a;b\n"])
def test_a_wrong_diagram_is_refused_in_the_words_of_the_parser(text: str) -> None:
    with pytest.raises(DiagramError) as caught:
        read_diagrams([CHARGE, text])

    assert str(caught.value).startswith("diagram 1 of 2: Parse error on line 2:\n")
    assert "Expecting " in str(caught.value)
    assert text in str(caught.value)


def test_a_diagram_of_another_kind_is_refused() -> None:
    with pytest.raises(DiagramError, match=r"^diagram 0 of 1: a diagram of the kind pie is not read here"):
        read_diagrams(['pie\n  "a": 1\n'])


def test_more_edges_than_mermaid_draws_are_refused() -> None:
    edges = "".join(f"  n{at} --> n{at + 1}\n" for at in range(501))

    with pytest.raises(DiagramError, match="Edge limit exceeded"):
        read_diagrams([f"flowchart TD\n{edges}"])


def test_drawings_hold_what_a_reader_sees() -> None:
    texts = [flowchart("C:#92;new a#34;b #60;i>"), flowchart(r"C:\new __init__ fa:fa-bell"), ASKING]

    encoded, raw, asking = draw_diagrams(texts)

    assert encoded.labels == {"n0": 'tool: C:\\new a"b <i>', "done": "done"}
    assert raw.labels["n0"] == "tool: C:\new __init__ "
    assert asking.labels == {"p0": "planner", "p1": "tea ; cake"}
    assert (asking.messages, asking.notes) == (("tool: charge", "{}"), ("a", "b"))


def test_a_missing_node_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(RuntimeError, match="node is not on PATH: scripts/test installs"):
        read_diagrams([CHARGE])


def test_missing_packages_are_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "parse.mjs").write_text("await import('mermaid');")
    monkeypatch.setattr(mermaid, "_FOLDER", tmp_path)

    with pytest.raises(RuntimeError, match=r"(?s)scripts/test installs .*ERR_MODULE_NOT_FOUND"):
        read_diagrams([CHARGE])
