"""One exchange, whichever client makes it: whose it is, what answers it, and what is kept of a live answer.

A tap of a client asks :meth:`Exchanges.decide` about a request.  It gets an :class:`Answered` to give to its client, or
a :class:`Recorder` to tell what comes of the live call.  Between these two and the player stands nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise, repeat
from typing import Any, Literal, TypeAlias

from pytest_agentreplay.dialects import StreamEnd
from pytest_agentreplay.divergence import find_call_site
from pytest_agentreplay.encodings import decode_pieces, encoding_of
from pytest_agentreplay.payloads import cut
from pytest_agentreplay.player import Player, Serve, Ticket
from pytest_agentreplay.reader import HttpRequest
from pytest_agentreplay.records import ExchangeStep, Response, TransportError
from pytest_agentreplay.taps.failures import BEFORE_SENDING, Kind, describe_failure
from pytest_agentreplay.taps.owners import Owner, Registry
from pytest_agentreplay.taps.reach import Reach

__all__ = ["Answered", "Exchanges", "Fail", "Recorder", "Sent"]

_RETRIED = frozenset({408, 409, 425, 429})

# What belongs to one connection or one moment, not to the answer; encoding and length, because content is kept decoded.
_DROPPED_HEADERS = frozenset(
    {
        "age",
        "alt-svc",
        "cf-cache-status",
        "cf-ray",
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "expect-ct",
        "keep-alive",
        "nel",
        "proxy-connection",
        "report-to",
        "server-timing",
        "strict-transport-security",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-envoy-upstream-service-time",
    }
)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as a client is about to send it."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]]
    content: bytes


class Exchanges:
    """Where every tap asks about its requests.  One a session."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.live = registry.live_call  # around the real call of a client that may sit on another
        self.reach = Reach(registry)  # asked about what a client does that cannot be recorded

    def passes(self) -> bool:
        """Return whether what a client does here and now is none of our business, or another tap's."""
        return self.registry.concerns_no_one() or self.registry.is_in_live_call()

    def decide(self, sent: Sent) -> Answered | Recorder:
        """Return the recorded answer to a request, or leave to make it live.

        Raises what :meth:`Player.ask` and :meth:`Registry.settle` raise.
        """
        __tracebackhide__ = True
        owner, asked = self.registry.settle(lambda owner: owner.reader.read(_as_read(sent, owner)))
        scope = self.registry.scope()
        decision = owner.player.ask(asked, call_site=find_call_site, lane_name=scope.lane, parent=scope.parent)
        if isinstance(decision, Serve):
            answered = Answered(decision.step, is_paced=owner.player.settings.pace)
            self.registry.note_answer(owner if answered.is_retried else None)
            return answered
        owner.player.clients.add(_user_agent(sent))
        return Recorder(owner.player, decision, keeps_length=sent.method == "HEAD")

    @contextmanager
    def recorded_by(self, recorder: Recorder, fail: Fail) -> Iterator[None]:
        """Make the live call in this block; ``fail`` is told of what it raises."""
        try:
            with self.live():
                yield
        except BaseException as error:
            fail(recorder, error)
            raise


def _as_read(sent: Sent, owner: Owner) -> HttpRequest:
    wanted = owner.reader.wanted_headers
    headers = tuple([pair for pair in sent.headers if pair[0].lower() in wanted])
    return HttpRequest(method=sent.method, url=sent.url, headers=headers, content=sent.content)


def _user_agent(sent: Sent) -> str:
    return next((value for name, value in sent.headers if name.lower() == "user-agent"), "")


@dataclass(frozen=True, slots=True)
class Answered:
    """A recorded answer, to be given to a client of any kind."""

    step: ExchangeStep
    is_paced: bool = False

    @property
    def error(self) -> TransportError | None:
        """The failure that the exchange ended in, if it did."""
        return self.step.error

    @property
    def response(self) -> Response | None:
        """What came of an answer, if anything did."""
        return self.step.response

    @property
    def failed_before_sending(self) -> bool:
        """Whether the provider was not reached."""
        return self.step.error is not None and self.step.error.kind in BEFORE_SENDING

    @property
    def is_retried(self) -> bool:
        """Whether clients commonly try again after this, and wait before they do."""
        response = self.step.response
        return self.step.error is not None or response is None or response.status in _RETRIED or response.status >= 500

    @property
    def is_whole(self) -> bool:
        """Whether the content comes at once, in one piece and decoded."""
        response = self.step.response
        return (
            response is not None and not self.is_paced and len(response.cuts) < 2 and not encoding_of(response.headers)
        )

    def pieces(self) -> Sequence[bytes]:
        """Return the content in the pieces that it came in."""
        response = self.step.response
        return cut(response.content, response.cuts) if response is not None else ()

    def pauses(self) -> Iterator[float]:
        """Return the seconds to wait before each piece: none, unless the recorded timing is to be kept."""
        response = self.step.response
        arrivals = response.arrivals if response is not None and self.is_paced else ()
        waits = [max(0.0, at - before) for before, at in pairwise((0.0, *arrivals))]
        return chain(waits, repeat(0.0))

    def paced(self) -> Iterable[tuple[float, bytes]]:
        """Return each piece with the seconds to wait before it."""
        return zip(self.pauses(), self.pieces(), strict=False)


class Recorder:
    """Keeps what comes of one live call, and hands it to the player once.

    ``keeps_length`` says that the length is all that an answer says of its content.
    """

    def __init__(self, player: Player, ticket: Ticket, *, keeps_length: bool = False) -> None:
        self._player = player
        self._ticket = ticket
        self._kept_anyway = frozenset({"content-length"}) if keeps_length else frozenset()
        self._began = time.monotonic()
        self._status = 0
        self._headers: Sequence[tuple[str, str]] = ()
        self._encoding = ""
        self._chunks: list[bytes] = []
        self._arrivals: list[float] = []
        dialect = ticket.asked.dialect
        self._end = StreamEnd(dialect.stream_end) if dialect is not None and dialect.stream_end is not None else None
        self.is_done = False

    def head(self, status: int, headers: Iterable[tuple[str, str]], *, is_decoded: bool = False) -> None:
        """Keep the head of the answer; ``is_decoded`` says that its content encoding is undone in what follows."""
        self._status = status
        self._headers = list(headers)
        self._encoding = "" if is_decoded else encoding_of(self._headers)

    def chunk(self, chunk: bytes) -> None:
        """Keep a chunk before the agent gets it; with the last of a stream the answer is complete, and recorded."""
        if self.is_done or not chunk:
            return
        self._chunks.append(chunk)
        self._arrivals.append(time.monotonic() - self._began)
        if self._end is not None and not self._encoding and self._end.is_in(chunk):
            self.finish()

    def finish(self, *, truncated: bool = False) -> None:
        """Record an answer that is complete, or that the agent has stopped reading."""
        if not self.is_done:
            self.is_done = True
            self._player.complete(self._ticket, response=self._response(truncated=truncated))

    def fail(self, error: BaseException, *, failures: Any, client: str, kinds: Mapping[str, Kind]) -> None:
        """Record a call that has failed, before its answer or in the middle of it.

        What is none of a client's ``failures`` gives the call up, which is forgotten: a cancellation, say, or an error
        of the agent's own.  ``kinds`` says what the client's classes mean, by name.
        """
        if self.is_done:
            return
        self.is_done = True
        if not isinstance(error, failures):
            self._player.abandon(self._ticket)
            return
        failure = describe_failure(error, client=client, phase=self.phase, kinds=kinds)
        response = self._response(truncated=True) if failure.phase == "body" else None
        self._player.complete(self._ticket, response=response, error=failure)

    @property
    def phase(self) -> Literal["connect", "body"]:
        """Whether a failure comes before the head of the answer, or after."""
        return "body" if self._status else "connect"

    def _response(self, *, truncated: bool) -> Response:
        dropped = _DROPPED_HEADERS - self._kept_anyway
        decoded = decode_pieces(self._chunks, self._encoding) if self._encoding else self._chunks
        if decoded is None:  # the client has to cope with it in replay as it did live
            dropped -= {"content-encoding"}
        pieces: Sequence[bytes] = self._chunks if decoded is None else decoded
        kept = tuple((name.lower(), value) for name, value in self._headers if name.lower() not in dropped)
        filled = [(len(piece), round(at, 3)) for piece, at in zip(pieces, self._arrivals, strict=False) if piece]
        return Response(
            status=self._status,
            headers=kept,
            content=b"".join(pieces),
            cuts=tuple(length for length, _ in filled),
            arrivals=tuple(at for _, at in filled) if len(filled) > 1 else (),
            truncated=truncated,
        )


# How a tap tells a recorder of what a live call has raised.
Fail: TypeAlias = Callable[[Recorder, BaseException], None]
