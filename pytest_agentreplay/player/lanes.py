"""Conversations: which requests belong together.

A request continues a conversation when it extends that conversation's last request *and its answer*: two sub-agents
that opened alike are told apart by what each was answered.  Where the provider remembers the rest, it may name the
answer instead.  A request that repeats one without an answer (a retry) stays in its conversation too.  Everything else
opens a new one.  Threads and tasks play no part: their identity is not stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pytest_agentreplay.dialects import Message, Reply, count_echoes
from pytest_agentreplay.reader import Asked

__all__ = ["Lane", "Lanes"]


class Lane:
    """One live conversation."""

    __slots__ = (
        "_read_reply",
        "_reply",
        "_retriable",
        "_unnamed",
        "answered",
        "base",
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
        self.base = ""  # the id of what the provider remembered before that
        self.answered = False
        self.failed = False
        self._read_reply: Callable[[], Reply | None] | None = None
        self._reply: Reply | None = None
        self._retriable: dict[Lane, None] = {}
        self._unnamed: dict[Lane, None] = {}

    def follow(self, label: str) -> None:
        """Take the label of the recorded lane that this conversation follows."""
        self.label = label

    def go_live(self) -> None:
        """Have the requests of this conversation made from here on, and no longer served."""
        self.is_live = True

    def asked(self, asked: Asked, *, retriable: dict[Lane, None], unnamed: dict[Lane, None]) -> None:
        """Note that a request is in flight; a lane enters itself in ``retriable`` or, once answered, in ``unnamed``."""
        self._retriable.pop(self, None)
        self._unnamed.pop(self, None)
        self._retriable, self._unnamed = retriable, unnamed
        self.tip, self.base = asked.chain, asked.call.base if asked.call else ""
        self.answered, self.failed, self._read_reply, self._reply = False, False, None, None

    def answer(self, read_reply: Callable[[], Reply | None] | None) -> None:
        """Note how the request ended; ``None`` means without an answer."""
        self.failed = read_reply is None
        self.answered = not self.failed
        self._read_reply, self._reply = read_reply, None
        (self._retriable if self.failed else self._unnamed)[self] = None

    def is_at(self, chain: tuple[str, ...], *, base: str) -> bool:
        """Return whether the last request had this conversation, from its beginning."""
        return self.tip == chain and self.base == base

    def is_continued_by(self, asked: Asked) -> bool:
        """Return whether a longer request carries on from this conversation's last answer."""
        if not self.answered or not self.answers():
            return False
        rest = (asked.message_at(index) for index in range(len(self.tip), len(asked.chain)))
        return count_echoes(rest, lambda echo: any(_is_echo(echo, answer) for answer in self.answers())) > 0

    def answers(self) -> tuple[Message, ...]:
        """Return what the last request was answered, one message for each choice."""
        return self._read().messages

    def handles(self) -> tuple[str, ...]:
        """Return the ids by which a request can go on from the last answer."""
        return self._read().handles

    def gave(self, handle: str) -> bool:
        """Return whether the last answer has this id."""
        return self.answered and handle in self.handles()

    def awaits(self, handle: str) -> bool:
        """Return whether the last answer has this id, and the model was still at work when it was given."""
        return self.gave(handle) and self._read().finish_reason is None

    def is_opened_by_fetching(self) -> bool:
        """Return whether the last request fetched an answer, and is in flight."""
        return not (self.answered or self.tip or self.base)

    def _read(self) -> Reply:
        if self._reply is None:
            self._reply = (self._read_reply() if self._read_reply else None) or Reply()
        return self._reply


class Lanes:
    """The live conversations of one run.  Not thread-safe: the player's lock guards it."""

    def __init__(self) -> None:
        # Lanes by the last message of their last request, in the order in which they came there.
        self._by_tip: dict[str, dict[Lane, None]] = {}
        self._retriable: dict[str, dict[Lane, None]] = {}
        self._unnamed: dict[Lane, None] = {}  # lanes whose last answers have handles that nobody has asked for yet
        self._by_handle: dict[str, dict[Lane, None]] = {}
        self._opened: dict[str, int] = {}
        self._named: dict[str, Lane] = {}

    def place(
        self,
        asked: Asked,
        *,
        label: Callable[[str, int], str],
        name: str | None = None,
        parent: str | None = None,
    ) -> Lane:
        """Return the lane that a request belongs to: the one of that name, or the one it continues, or a new one.

        ``parent`` is the recorded tool that the request is made inside.
        """
        lane = self._fetched(asked, name)
        if lane is None:
            lane = self._named_lane(asked, name) if name is not None else self._continued(asked)
            lane = lane or self._new_lane(asked, label)
            self._move(lane, asked)
        lane.parent = parent
        return lane

    def _named_lane(self, asked: Asked, name: str) -> Lane:
        return self._named.setdefault(name, Lane(f"@{name}", asked.hash, is_named=True))

    def _new_lane(self, asked: Asked, label: Callable[[str, int], str]) -> Lane:
        ordinal = self._opened[asked.hash] = self._opened.get(asked.hash, 0) + 1
        return Lane(label(asked.hash, ordinal), asked.hash)

    def _fetched(self, asked: Asked, name: str | None) -> Lane | None:
        """Return the lane whose last answer a request fetches once more: it stays where it is."""
        if not asked.retrieves:
            return None
        lane = self._named_by((asked.retrieves,)) if name is None else self._named.get(name)
        return lane if lane is not None and lane.gave(asked.retrieves) else None

    def _continued(self, asked: Asked) -> Lane | None:
        if asked.call is None:
            return None
        chain, base = asked.chain, asked.call.base
        for lane in self._retriable.get(_tip_of(chain), ()):
            if lane.is_at(chain, base=base):
                return lane
        named = self._named_by((base, *asked.call.named)) if base or asked.call.named else None
        if named is not None:
            return named
        for length in range(len(chain) - 1, 0, -1):
            for lane in self._by_tip.get(chain[length - 1], ()):
                if len(lane.tip) == length and lane.is_at(chain[:length], base=base) and lane.is_continued_by(asked):
                    return lane
        return None

    def _named_by(self, names: Iterable[str]) -> Lane | None:
        """Return the first lane whose last answer, or a part of it, has one of these ids."""
        for lane in self._unnamed:
            for handle in lane.handles():
                self._by_handle.setdefault(handle, {})[lane] = None
        self._unnamed.clear()
        return next((lane for name in names for lane in self._by_handle.get(name, ()) if lane.gave(name)), None)

    def _move(self, lane: Lane, asked: Asked) -> None:
        if lane.tip:
            del self._by_tip[lane.tip[-1]][lane]
        if lane.answered and lane not in self._unnamed:
            for handle in lane.handles():
                self._by_handle.get(handle, {}).pop(lane, None)
        if asked.chain:
            self._by_tip.setdefault(asked.chain[-1], {})[lane] = None
        retriable = self._retriable.setdefault(_tip_of(asked.chain), {}) if asked.call else {}
        lane.asked(asked, retriable=retriable, unnamed=self._unnamed)


def _tip_of(chain: tuple[str, ...]) -> str:
    return chain[-1] if chain else ""


def _is_echo(echo: Message, answer: Message) -> bool:
    """Return whether a message of a request is the answer it follows.

    Clients drop, add and reorder fields of an answer that they send back, so only what it says is compared.
    """
    if echo.role != answer.role:
        return False
    if answer.tool_calls or echo.tool_calls:
        return [(call.id, call.name) for call in echo.tool_calls] == [(c.id, c.name) for c in answer.tool_calls]
    return echo.text.strip() == answer.text.strip()
