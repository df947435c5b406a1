"""A run of six steps, four turns and two tools, that can be killed between any two of them and inside each.

As a program it takes orders, one JSON object a line, and for each forks a process that does the run; it says which
signal ended that process.  So what is imported is imported once, and every kill is a real one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_agentreplay import recorded_tool, resume, use_cassette
from tests.support import agent
from tests.support.agent import Desk

TASK = "Look my order up, and refund it."
MORE = "Anything else?"
STEPS = ("model", "look", "model", "pay", "model", "model")
NAME = "a run of six steps"


@dataclass(frozen=True)
class Run:
    """One run: where its model is, where its tools note that they have begun, and where it ends before its time."""

    url: str
    log: str
    boundary: int | None = None  # after so many steps
    inside: int | None = None  # in the how-many-th step; in a model's, the provider kills

    def __call__(self, *_: Any) -> str:
        """Do all steps; return what the model said last."""
        desk, done = Desk(self.url), 0

        def reached() -> None:
            nonlocal done
            if done == self.boundary:
                die()
            done += 1

        tools = self.tools()
        messages: list[Any] = [{"role": "system", "content": agent.SYSTEM}, agent.user(TASK)]
        reached()
        while True:
            message = desk.message(*messages)
            messages.append(message)
            reached()
            if not message.get("tool_calls"):
                break
            messages += [agent.result_of(call, tools) for call in message["tool_calls"]]
            reached()
        said = desk.pieces(*messages, MORE)
        reached()
        return "".join(said)

    def tools(self) -> dict[str, Callable[..., Any]]:
        """Return the two tools, which note each run of their bodies."""

        @recorded_tool
        def look(order: str) -> dict[str, Any]:
            self._begin("look")
            return {"order": order, "cents": 5990}

        @recorded_tool
        def pay(cents: int) -> str:
            self._begin("pay")
            return f"refunded {cents}"

        return {"look": look, "pay": pay}

    def _begin(self, name: str) -> None:
        with Path(self.log).open("a") as log:
            log.write(f"{name}\n")
        if self.inside is not None and STEPS[self.inside - 1] == name:
            die()


def die() -> None:
    """End this process as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)


def record(path: Path, run: Run) -> str:
    """Do a run that is recorded, and goes on from an interrupted recording."""
    with use_cassette(path, record_mode="once", name=NAME, task=TASK):
        return run()


def obey(order: dict[str, Any]) -> None:
    """Do one run as ordered: recorded, or going on from a tape."""
    agent.CLIENT.headers["x-pid"] = str(os.getpid())
    run = Run(**order["run"])
    if order.get("tape"):
        resume(order["tape"], run)
    else:
        record(Path(order["path"]), run)


def main() -> None:
    """Fork for each order, and say how that process ended."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            obey(json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
