"""Make the recorded requests of each source file, one test a file, and keep what the client saw."""

import asyncio
import base64
import json
import os
import ssl
from pathlib import Path

import httpx
import httpx2
import pytest

PLAN = json.loads((Path(__file__).parent / "plan.json").read_text())
SEEN = Path(os.environ["SEEN"])
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a client's own takes longer to load than a file to replay


def keep(name, value):
    SEEN.mkdir(exist_ok=True)
    (SEEN / f"{len(list(SEEN.iterdir())):04}.json").write_text(json.dumps({"name": name, **value}))


def options_of(request, name):
    headers = [*map(tuple, request["headers"]), ("x-pass", name)]
    return {"headers": headers, "content": base64.b64decode(request["body"])}


def saw(request, response, pieces):
    return {
        "exchange": request["name"],
        "status": response.status_code,
        "headers": response.headers.multi_items(),
        "pieces": [base64.b64encode(piece).decode() for piece in pieces],
    }


def ask(library, requests, name):
    with library.Client(verify=NO_TLS) as client:
        for request in requests:
            with client.stream(request["method"], request["url"], **options_of(request, name)) as response:
                yield saw(request, response, list(response.iter_bytes()))


async def ask_async(library, requests, name):
    seen = []
    async with library.AsyncClient(verify=NO_TLS) as client:
        for request in requests:
            options = options_of(request, name)
            async with client.stream(request["method"], request["url"], **options) as response:
                seen.append(saw(request, response, [piece async for piece in response.aiter_bytes()]))
    return seen


def make(client, requests, name):
    library = {"httpx": httpx, "httpx2": httpx2}[client.removesuffix("-async")]
    if client.endswith("-async"):
        return asyncio.run(ask_async(library, requests, name))
    return list(ask(library, requests, name))


@pytest.mark.agent_cassette
@pytest.mark.parametrize("file", [pytest.param(file, id=file) for file in PLAN["files"]])
@pytest.mark.parametrize("client", PLAN["clients"])
def test_one_file(client, file, agent_run):
    seen = make(client, PLAN["files"][file], f"{client}, file by file")

    keep(f"{client}, file by file", {"file": file, "seen": seen, "cassette": str(agent_run.cassette)})


@pytest.mark.agent_cassette
@pytest.mark.parametrize("client", PLAN["clients"])
def test_all_files(client, agent_run):
    requests = [request for file in PLAN["files"].values() for request in file]

    seen = make(client, requests, f"{client}, all in one")

    keep(f"{client}, all in one", {"file": None, "seen": seen, "cassette": str(agent_run.cassette)})
