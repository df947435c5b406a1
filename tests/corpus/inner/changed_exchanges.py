"""Make the requests of a file up to one, and that one with something changed."""

import base64
import json
import os
import ssl
from pathlib import Path

import httpx
import httpx2
import pytest

from pytest_agentreplay import ReplayDivergenceError

HERE = Path(__file__).parent
PLAN = json.loads((HERE / "plan.json").read_text())
SEEN = Path(os.environ["SEEN"])
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a client's own takes longer to load than a file to replay
LIBRARIES = {"httpx": httpx, "httpx2": httpx2}


@pytest.fixture
def agent_cassette_dir():
    return HERE.parent


def played(case):
    return pytest.param(case, marks=pytest.mark.agent_cassette(case["cassette"]), id=case["name"])


@pytest.mark.parametrize("case", [played(case) for case in PLAN["cases"]])
def test_a_changed_request(case):
    with LIBRARIES[case["client"]].Client(verify=NO_TLS) as client:
        for request in case["before"]:
            send(client, request)
        try:
            send(client, case["changed"])
        except ReplayDivergenceError as error:
            SEEN.mkdir(exist_ok=True)
            kept = {"name": case["name"], "kind": error.kind, "report": str(error)}
            (SEEN / f"{len(list(SEEN.iterdir())):04}.json").write_text(json.dumps(kept))
            raise


def send(client, request):
    content = base64.b64decode(request["body"])
    headers = [tuple(pair) for pair in request["headers"]]
    return client.request(request["method"], request["url"], headers=headers, content=content)
