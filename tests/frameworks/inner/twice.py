"""Run pytest in this folder twice in one process, so that frameworks are imported once: recording, then replaying.

The fake provider, the program named by the first argument, is stopped in between.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def start(provider):
    port_file = HERE / "port"
    server = subprocess.Popen([sys.executable, provider, "--port", "0", "--port-file", str(port_file)])
    for _ in range(1000):
        if port_file.exists() and (port := port_file.read_text()):
            return server, f"http://127.0.0.1:{port}"
        time.sleep(0.01)
    raise AssertionError("the fake provider did not start within 10 seconds")


def run(name, *arguments):
    os.environ["RUN"] = name
    code = pytest.main(["-q", str(HERE), *arguments])
    if code:
        sys.exit(code)


if __name__ == "__main__":
    server, base = start(sys.argv[1])
    try:
        plan = json.loads((HERE / "plan.json").read_text())
        (HERE / "plan.json").write_text(json.dumps(plan | {"base": base}))
        run("recorded", "--record-mode=once", "-k", "not library")
    finally:
        server.terminate()
        server.wait()
    run("replayed")
