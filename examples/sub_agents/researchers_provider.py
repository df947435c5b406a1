"""A provider that speaks OpenAI's chat format and follows a script for each conversation: no model behind it.

Run it alone, or before a command, which then finds it by OPENAI_BASE_URL:
``python researchers_provider.py pytest --record-mode=rewrite``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT = 49322


def research(*topics: str) -> dict[str, Any]:
    made = [call(f"call_{topic}", "research", topic=topic) for topic in topics]
    return {"role": "assistant", "content": None, "tool_calls": made}


def read_notes(topic: str) -> dict[str, Any]:
    made = call(f"call_notes_{topic}", "read_notes", topic=topic)
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def say(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


# The answers of each conversation, by what its user said, and the tokens that each is said to have taken.
SCRIPTS: dict[str, list[tuple[dict[str, Any], int, int]]] = {
    "What do I need to serve tea?": [
        (research("tea", "pots"), 96, 42),
        (say("Green tea at 80 degrees, in a glazed pot for four cups."), 171, 18),
    ],
    "tea": [
        (read_notes("tea"), 71, 16),
        (say("Green tea wants water of 80 degrees."), 108, 11),
    ],
    "pots": [
        (read_notes("pots"), 71, 16),
        (say("A glazed pot for four cups keeps no taste."), 107, 12),
    ],
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    said = [message["content"] for message in request["messages"] if message["role"] == "user"]
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    message, read, written = SCRIPTS[said[0]][turn]
    finish_reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": f"chatcmpl-{said[0].split()[-1].strip('?')}-{turn + 1}",
        "object": "chat.completion",
        "created": 1767225600,
        "model": "scripted-provider",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            self.send(200, answer(request))
        except (IndexError, KeyError):
            self.send(400, {"error": {"message": "the script has no further answer"}})

    def send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "scripted-provider"

    def log_message(self, *args: Any) -> None:
        """Keep the terminal to the command that runs beside."""


class Provider(ThreadingHTTPServer):
    """Listens on a port of this machine."""

    def __init__(self, port: int = PORT) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def serving(port: int = PORT) -> Iterator[Provider]:
    with Provider(port) as provider:
        threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield provider
        finally:
            provider.shutdown()


def main(command: list[str]) -> int:
    with serving() as provider:
        if command:
            return subprocess.call(command, env=os.environ | {"OPENAI_BASE_URL": provider.base_url})
        print(f"serving on {provider.base_url}; stop it with Ctrl+C", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
