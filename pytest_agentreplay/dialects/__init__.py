"""Provider wire formats, read without any SDK.

A dialect is data and three functions: ``read_call`` reads a request body, ``read_message`` one element of a
conversation, ``read_reply`` the bytes of an answer, plain or streamed.  Third parties add their own through the hook
:func:`agentreplay_dialects`, which is how those here are registered as well; the entry point group is ``agentreplay``.
"""

from pytest_agentreplay.dialects.registry import Dialects, hookimpl, installed_dialects, load_dialects
from pytest_agentreplay.dialects.stream_end import StreamEnd
from pytest_agentreplay.dialects.vocabulary import (
    Call,
    Dialect,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    count_echoes,
    read_events,
    text_in,
)

__all__ = [
    "Call",
    "Dialect",
    "Dialects",
    "Message",
    "Reply",
    "StreamEnd",
    "ToolCall",
    "ToolResult",
    "count_echoes",
    "hookimpl",
    "installed_dialects",
    "load_dialects",
    "read_events",
    "text_in",
]
