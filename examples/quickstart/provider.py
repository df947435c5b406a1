"""A provider that speaks OpenAI's chat format and follows a script: no model behind it, the same answers every time.

Run it alone, or before a command, which then finds it by OPENAI_BASE_URL:
``python provider.py pytest --record-mode=rewrite``.
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

PORT = 49321


def call(name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    made = {"id": f"call_{name}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def say(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


# The nth answer of a conversation, and the tokens that it is said to have taken.
SCRIPT: list[tuple[dict[str, Any], int, int]] = [
    (call("look_up_order", order_id="A-1042"), 148, 19),
    (call("issue_refund", order_id="A-1042", cents=5990), 189, 24),
    (say("I have refunded the 59.90 that you paid for the teapot of order A-1042."), 225, 21),
]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    message, read, written = SCRIPT[turn]
    finish_reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": f"chatcmpl-{turn + 1}",
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
        self.server.requests += 1  # type: ignore[attr-defined]
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            self.send(200, answer(request))
        except IndexError:
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
    """Listens on a port of this machine, 0 for any free one; counts the requests that reach it."""

    def __init__(self, port: int = PORT) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"
        self.requests = 0


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
