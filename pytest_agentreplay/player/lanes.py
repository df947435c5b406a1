"""Conversations: which requests belong together.

A request continues a conversation when it extends that conversation's last request *and its answer*: two sub-agents
that opened alike are told apart by what each was answered.  A request that repeats one without an answer (a retry)
stays in its conversation too.  Everything else opens a new one.  Threads and tasks play no part: their identity is not
stable.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_agentreplay.dialects import Message
from pytest_agentreplay.reader import Asked

__all__ = ["Lane", "Lanes"]


class Lane:
    """One live conversation."""

    __slots__ = (
        "_answers",
        "_read_answers",
        "_retriable",
        "answered",
        "failed",
        "is_live",
        "is_named",
        "label",
        "opening",
        "parent",
        "tip",
    )

    def __init__(self, label: str, opening: str, *, is_named: bool = False) -> None:
        self.label = label
        self.opening = opening
        self.is_named = is_named
        self.is_live = False  # whether its requests are made, and no longer served
        self.parent: str | None = None  # the recorded tool that its last request was made inside
        self.tip: tuple[str, ...] = ()  # the conversation as of the last request
        self.answered = False
        self.failed = False
        self._read_answers: Callable[[], tuple[Message, ...]] | None = None
        self._answers: tuple[Message, ...] | None = None
        self._retriable: dict[Lane, None] = {}

    def asked(self, chain: tuple[str, ...], *, retriable: dict[Lane, None]) -> None:
        """Note that a request is in flight; a lane that fails enters itself in ``retriable``."""
        self._retriable.pop(self, None)
        self._retriable = retriable
        self.tip, self.answered, self.failed, self._read_answers, self._answers = chain, False, False, None, None

    def answer(self, read_answers: Callable[[], tuple[Message, ...]] | None) -> None:
        """Note how the request ended; ``None`` means without an answer."""
        self.failed = read_answers is None
        self.answered = not self.failed
        self._read_answers = read_answers
        if self.failed:
            self._retriable[self] = None

    def is_continued_by(self, asked: Asked) -> bool:
        """Return whether a longer request carries on from this conversation's last answer."""
        if not self.answered or self._read_answers is None:
            return False
        echo = asked.message_at(len(self.tip))
        return echo is not None and any(_is_echo(echo, answer) for answer in self.answers())

    def answers(self) -> tuple[Message, ...]:
        """Return what the last request was answered, one message for each choice."""
        if self._answers is None and self._read_answers is not None:
            self._answers = self._read_answers()
        return self._answers or ()


class Lanes:
    """The live conversations of one run.  Not thread-safe: the player's lock guards it."""

    def __init__(self) -> None:
        # Lanes by the last message of their last request, in the order in which they came there.
        self._by_tip: dict[str, dict[Lane, None]] = {}
        self._retriable: dict[str, dict[Lane, None]] = {}
        self._opened: dict[str, int] = {}
        self._named: dict[str, Lane] = {}

    def place(self, asked: Asked, *, label: Callable[[str, int], str], name: str | None = None) -> Lane:
        """Return the lane that a request belongs to: the one of that name, or the one it continues, or a new one."""
        if name is not None:
            named = self._named.setdefault(name, Lane(f"@{name}", asked.hash, is_named=True))
            self._move(named, asked.chain)
            return named
        lane = self._continued(asked)
        if lane is None:
            ordinal = self._opened[asked.hash] = self._opened.get(asked.hash, 0) + 1
            lane = Lane(label(asked.hash, ordinal), asked.hash)
        self._move(lane, asked.chain)
        return lane

    def _continued(self, asked: Asked) -> Lane | None:
        chain = asked.chain
        for lane in self._retriable.get(chain[-1], ()) if chain else ():
            if lane.tip == chain:
                return lane
        for length in range(len(chain) - 1, 0, -1):
            for lane in self._by_tip.get(chain[length - 1], ()):
                if len(lane.tip) == length and chain[:length] == lane.tip and lane.is_continued_by(asked):
                    return lane
        return None

    def _move(self, lane: Lane, chain: tuple[str, ...]) -> None:
        if lane.tip:
            del self._by_tip[lane.tip[-1]][lane]
        if chain:
            self._by_tip.setdefault(chain[-1], {})[lane] = None
        lane.asked(chain, retriable=self._retriable.setdefault(chain[-1], {}) if chain else {})


def _is_echo(echo: Message, answer: Message) -> bool:
    """Return whether a message of a request is the answer it follows.

    Clients drop, add and reorder fields of an answer that they send back, so only what it says is compared.
    """
    if echo.role != answer.role:
        return False
    if answer.tool_calls or echo.tool_calls:
        return [(call.id, call.name) for call in echo.tool_calls] == [(c.id, c.name) for c in answer.tool_calls]
    return echo.text.strip() == answer.text.strip()
