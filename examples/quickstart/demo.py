"""The whole story in one go: the refund desk recorded, replayed offline, stopped at one changed prompt, and drawn.

Everything happens in a temporary folder; what stands in this one is left as it is.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from provider import serving

HERE = Path(__file__).resolve().parent
CASSETTE = Path("cassettes", "test_refund", "test_a_cracked_teapot_is_refunded.jsonl")
GOLDEN = Path("__snapshots__", "test_refund", "test_a_cracked_teapot_is_refunded.mermaid")
PROMPT, CHANGED_PROMPT = "in one sentence", "in two short sentences"


class WrongTurnError(Exception):
    """The demo did not go as it should."""


@dataclass(frozen=True)
class Run:
    """One run of pytest: its exit code, what it printed, how many seconds it took."""

    exit_code: int
    output: str
    seconds: float


def headline(text: str) -> None:
    print(f"\n{'=' * 100}\n{text}\n{'=' * 100}\n", flush=True)


def expect(claim: bool, what: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not claim:
        raise WrongTurnError(what)


def run_pytest(folder: Path, *options: str, base_url: str) -> Run:
    shown = ["pytest", *options]
    print(f"$ {' '.join(shown)}\n", flush=True)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *shown, "-p", "no:cacheprovider"],
        cwd=folder,
        env=environment(os.environ, base_url=base_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    seconds = time.perf_counter() - began
    print("\n".join(f"  {line}".rstrip() for line in done.stdout.splitlines()), flush=True)
    return Run(done.returncode, done.stdout, seconds)


def environment(ours: Mapping[str, str], *, base_url: str) -> dict[str, str]:
    """Return our environment without what would send the requests, or pytest, elsewhere."""
    kept = {
        name: value
        for name, value in ours.items()
        if not name.lower().endswith("_proxy") and not name.startswith(("OPENAI_", "PYTEST_"))
    }
    return kept | {
        "OPENAI_BASE_URL": base_url,
        "COLUMNS": "100",
        "PYTHONDONTWRITEBYTECODE": "1",  # the agent is edited within a second
        "PYTHONIOENCODING": "utf-8",
    }


def is_silent(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def record(folder: Path) -> str:
    """Record the agent against the provider, stop it, and return where it was."""
    headline("1. Record: the agent runs against a scripted provider on this machine")
    with serving(port=0) as provider:
        run = run_pytest(folder, "test_refund.py", "--record-mode=once", base_url=provider.base_url)
        requests = provider.requests
    expect(run.exit_code == 0, f"recording ended with exit code {run.exit_code}")
    expect((folder / CASSETTE).is_file(), f"no cassette was written to {CASSETTE}")
    expect(requests == 3, f"the provider was asked {requests} times instead of 3 times")
    expect(is_silent(provider.server_port), "the provider still listens after it was stopped")
    print(f"\nThe provider answered {requests} requests. It is stopped now, and stays so.")
    return provider.base_url


def replay(folder: Path, *, base_url: str) -> None:
    headline("2. Replay offline: the same agent, no provider, no option")
    recorded = (folder / CASSETTE).read_bytes()
    run = run_pytest(folder, "test_refund.py", "--durations=3", "--durations-min=0", base_url=base_url)
    expect(run.exit_code == 0, f"the replay ended with exit code {run.exit_code}")
    expect("1 replayed" in run.output, "nothing was replayed")
    expect((folder / CASSETTE).read_bytes() == recorded, "the replay changed the cassette")
    print(f"\nThree turns and two tool calls, replayed: {run.seconds:.1f} s, with the start of Python, pytest and SDK.")


def replay_changed(folder: Path, *, base_url: str) -> None:
    headline(f"3. Replay with one changed prompt: {PROMPT!r} becomes {CHANGED_PROMPT!r}")
    agent = folder / "refund_desk.py"
    before = agent.read_text(encoding="utf-8")
    after = before.replace(PROMPT, CHANGED_PROMPT)
    expect(after != before, f"{PROMPT!r} is not in the system prompt")
    agent.write_text(after, encoding="utf-8")
    run = run_pytest(folder, "test_refund.py", base_url=base_url)
    expect(run.exit_code == 1, f"the changed agent ended with exit code {run.exit_code} instead of 1")
    report = " ".join(run.output.split())
    for part in ("ReplayDivergenceError", "$.messages[0].content", PROMPT, CHANGED_PROMPT, "--record-mode=rewrite"):
        expect(part in report, f"the report does not name {part!r}")


def draw(folder: Path) -> None:
    headline("4. Draw: the same diagram that the test compares with its golden; GitHub draws it")
    golden = folder / GOLDEN
    print(f"$ agentreplay mermaid {CASSETTE.as_posix()}\n", flush=True)
    program = shutil.which("agentreplay", path=str(Path(sys.executable).parent))
    expect(program is not None, "agentreplay is not installed beside this Python")
    done = subprocess.run([str(program), "mermaid", str(CASSETTE)], cwd=folder, stdout=subprocess.PIPE, check=False)
    print(done.stdout.decode(), end="", flush=True)
    expect(done.stdout == golden.read_bytes(), f"the diagram is not the golden at {GOLDEN}")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="refund-desk-") as name:
        folder = Path(name).resolve()
        for file in ("refund_desk.py", "test_refund.py"):
            shutil.copy(HERE / file, folder)
        shutil.copytree(HERE / "__snapshots__", folder / "__snapshots__")
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # no settings from the folders above
        try:
            base_url = record(folder)
            replay(folder, base_url=base_url)
            replay_changed(folder, base_url=base_url)
            draw(folder)
        except WrongTurnError as error:
            print(f"\ndemo failed: {error}")
            return 1
    print("\nShown: an agent recorded once, replayed with its provider gone, stopped at one changed prompt, and drawn.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
