"""The steps of a tape, one frozen model each.

A tape is an ordered list of steps; this module is the closed set of what a step can be.  Conversations are held by
content address: a JSON body keeps its small fields, and for each top-level array the addresses of its elements,
which the tape keeps once.  Unknown fields are kept, so that a tape written by a newer minor version survives a round
trip through an older one.  Attempts, approvals, values, signals, timers, checkpoints and errors are reserved: nothing
writes them yet.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from pytest_agentreplay.addresses import Addresses

__all__ = [
    "FORMAT_VERSION",
    "ApprovalStep",
    "AttemptStep",
    "Body",
    "BytesBody",
    "CheckpointStep",
    "CompactionStep",
    "EmptyBody",
    "Entry",
    "ErrorStep",
    "ExchangeStep",
    "FormBody",
    "HttpStep",
    "JsonBody",
    "ModelStep",
    "MultipartBody",
    "Part",
    "PermissionStep",
    "Phase",
    "Request",
    "Response",
    "RunEnd",
    "RunStart",
    "SignalStep",
    "Step",
    "TextBody",
    "TimerStep",
    "Timing",
    "ToolFailure",
    "ToolStep",
    "TransportError",
    "Usage",
    "ValueStep",
    "read_step",
]

FORMAT_VERSION = 1

Phase: TypeAlias = Literal["setup", "call", "teardown"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class JsonBody(_Record):
    """A JSON body: ``fields`` as they are, ``lists`` as the addresses of their elements.

    ``root`` says what the document is: an object, or an array (then its elements stand under the empty key), or a
    scalar (then it is the value of the empty field).
    """

    kind: Literal["json"] = "json"
    root: Literal["object", "array", "scalar"] = "object"
    fields: dict[str, Any] = {}
    lists: dict[str, Addresses] = {}


class FormBody(_Record):
    """A form, as its sorted pairs."""

    kind: Literal["form"] = "form"
    pairs: tuple[tuple[str, str], ...]


class Part(_Record):
    """One part of a multipart body.  ``text`` is kept for short readable parts only; ``size`` is in bytes."""

    headers: dict[str, str]
    sha256: str
    size: int
    text: str | None = None


class MultipartBody(_Record):
    """A multipart body without its random boundary."""

    kind: Literal["multipart"] = "multipart"
    parts: tuple[Part, ...]


class TextBody(_Record):
    """A body of text that is no JSON."""

    kind: Literal["text"] = "text"
    text: str


class BytesBody(_Record):
    """A binary body, by its SHA-256 and its size in bytes."""

    kind: Literal["bytes"] = "bytes"
    sha256: str
    size: int


class EmptyBody(_Record):
    """No body."""

    kind: Literal["empty"] = "empty"


Body: TypeAlias = Annotated[
    JsonBody | FormBody | MultipartBody | TextBody | BytesBody | EmptyBody, Field(discriminator="kind")
]


class Request(_Record):
    """A request as recorded: redacted, its URL in normal form, with those headers that change the answer."""

    method: str
    url: str
    headers: dict[str, str] = {}
    body: Body = EmptyBody()


class Response(_Record):
    """An answer as recorded.

    ``content`` holds the bytes after content decoding and redaction.  ``cuts`` are the lengths in bytes of the
    pieces they arrived in, ``arrivals`` when each came, in seconds from when the request was made; empty means one
    piece.  ``truncated`` says that the agent stopped reading before the end.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    content: bytes = b""
    cuts: tuple[int, ...] = ()
    arrivals: tuple[float, ...] = ()
    truncated: bool = False


class TransportError(_Record):
    """A failure of the transport: the client's module, the exception class, when, and its text.

    ``kind`` is what went wrong in words that no client owns: another client raises its own class for it.
    """

    client: str
    class_name: str
    kind: str = "other"
    phase: Literal["connect", "body"]
    text: str


class Usage(_Record):
    """Tokens of one model call, in OpenTelemetry's GenAI words."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None


class Timing(_Record):
    """When a step began, in seconds from the start of the run, and how long it took, in seconds."""

    began: float
    took: float


class _Step(_Record):
    lane: str = ""
    phase: Phase = "call"
    parent: str | None = None
    timing: Timing | None = Field(default=None, exclude=True)
    rank: int | None = Field(default=None, exclude=True)  # where the model asked for a tool among those of one turn


class RunStart(_Step):
    """The head of a tape."""

    kind: Literal["run.start"] = "run.start"
    format: int = FORMAT_VERSION
    rules: str = ""
    run_id: str | None = None
    name: str | None = None
    task: str | None = None
    config: dict[str, Any] | None = None
    recorded_at: str | None = None
    replay_of: str | None = None
    parent_run: str | None = None
    versions: dict[str, str] = {}


class _Exchange(_Step):
    hash: str
    provider: str = ""
    operation: str = ""
    request: Request
    response: Response | None = None
    error: TransportError | None = None


class ModelStep(_Exchange):
    """One call of a model."""

    kind: Literal["model"] = "model"
    usage: Usage | None = None
    cost_usd: float | None = None


class HttpStep(_Exchange):
    """Traffic that asks no model.  ``usage`` is that of an answer which was waited for, counted where it is whole."""

    kind: Literal["http"] = "http"
    usage: Usage | None = None


class AttemptStep(_Step):
    """Written before an unsafe effect."""

    kind: Literal["attempt"] = "attempt"
    tool_use_id: str | None = None
    tool: str
    idempotency_key: str | None = None


class ToolFailure(_Record):
    """An exception that a tool raised: its type as ``MODULE:NAME``, its message, and what makes it again.

    ``args`` and ``state`` (its attributes) are spelled as :func:`values.spell` does, where they can be.
    """

    type: str
    message: str
    args: list[Any] | None = None
    state: dict[str, Any] | None = None


class ToolStep(_Step):
    """One call of a tool and what came of it."""

    kind: Literal["tool"] = "tool"
    hash: str
    id: str = ""  # the hash's first digits, with an ordinal among equal calls; steps inside the tool name it as parent
    tool_use_id: str | None = None
    name: str
    arguments: Any = None
    result: Any = None
    result_type: str | None = None
    error: ToolFailure | None = None
    is_error: bool = False
    source: Literal["wrapped", "transcript"] = "wrapped"


class PermissionStep(_Step):
    """A decision on a tool call."""

    kind: Literal["permission"] = "permission"
    tool_use_id: str | None = None
    decision: Literal["allow", "deny", "ask"]
    resolution: str | None = None
    policy: str | None = None
    reason: str | None = None


class ApprovalStep(_Step):
    """A person's answer to a request for approval."""

    kind: Literal["approval"] = "approval"
    name: str
    approved: bool
    approver: str | None = None
    reason: str | None = None


class ValueStep(_Step):
    """A durable value of the user's own; the terminal one is named ``run:complete``."""

    kind: Literal["value"] = "value"
    name: str
    value: Any = None


class SignalStep(_Step):
    """An answered interrupt."""

    kind: Literal["signal"] = "signal"
    name: str
    value: Any = None


class TimerStep(_Step):
    """A wake time, absolute, in UTC."""

    kind: Literal["timer"] = "timer"
    name: str
    fire_at: str


class CompactionStep(_Step):
    """A conversation shortened."""

    kind: Literal["compaction"] = "compaction"
    tokens_before: int | None = None
    tokens_after: int | None = None
    summary: str | None = None
    dropped_messages: int | None = None


class CheckpointStep(_Step):
    """A checkpoint taken."""

    kind: Literal["checkpoint"] = "checkpoint"
    id: str
    boundary: bool
    fingerprints: dict[str, str] = {}


class ErrorStep(_Step):
    """An error of the run itself."""

    kind: Literal["error"] = "error"
    error_phase: str | None = None
    type: str
    message: str


class RunEnd(_Step):
    """The end of a tape."""

    kind: Literal["run.end"] = "run.end"
    outcome: Literal["ok", "failed", "error"] = "ok"
    stop_reason: str | None = None
    turns: int | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    output: Any = None


ExchangeStep: TypeAlias = ModelStep | HttpStep
Entry: TypeAlias = (
    ModelStep
    | HttpStep
    | AttemptStep
    | ToolStep
    | PermissionStep
    | ApprovalStep
    | ValueStep
    | SignalStep
    | TimerStep
    | CompactionStep
    | CheckpointStep
    | ErrorStep
)  # what stands between the head and the end of a tape
Step: TypeAlias = Annotated[RunStart | Entry | RunEnd, Field(discriminator="kind")]

_STEP: TypeAdapter[Step] = TypeAdapter(Step)


def read_step(value: dict[str, Any]) -> Step:
    """Return the step that ``value`` describes.  Raises ``pydantic.ValidationError`` for anything else."""
    return _STEP.validate_python(value)
