"""Make the recorded requests of each source file, one test a file, and keep what the client saw."""

import asyncio
import base64
import json
import os
import ssl
from pathlib import Path

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3
import yarl

PLAN = json.loads((Path(__file__).parent / "plan.json").read_text())
SEEN = Path(os.environ["SEEN"])
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a client's own takes longer to load than a file to replay


def keep(name, value):
    SEEN.mkdir(exist_ok=True)
    (SEEN / f"{len(list(SEEN.iterdir())):04}.json").write_text(json.dumps({"name": name, **value}))


def options_of(request, name):
    headers = [*map(tuple, request["headers"]), ("x-pass", name)]
    return {"headers": headers, "content": base64.b64decode(request["body"])}


def saw(request, status, headers, pieces):
    return {
        "exchange": request["name"],
        "status": status,
        "headers": [(key.lower(), value) for key, value in headers],
        "pieces": [base64.b64encode(piece).decode() for piece in pieces if piece],
    }


def ask(library, requests, name):
    with library.Client(verify=NO_TLS) as client:
        for request in requests:
            with client.stream(request["method"], request["url"], **options_of(request, name)) as response:
                pieces = list(response.iter_bytes())
                yield saw(request, response.status_code, response.headers.multi_items(), pieces)


async def ask_async(library, requests, name):
    seen = []
    async with library.AsyncClient(verify=NO_TLS) as client:
        for request in requests:
            options = options_of(request, name)
            async with client.stream(request["method"], request["url"], **options) as response:
                pieces = [piece async for piece in response.aiter_bytes()]
                seen.append(saw(request, response.status_code, response.headers.multi_items(), pieces))
    return seen


def ask_requests(asked, name):
    with requests.Session() as session:
        for request in asked:
            options = options_of(request, name)
            response = session.request(
                request["method"],
                request["url"],
                headers=dict(options["headers"]),
                data=options["content"],
                stream=True,
            )
            pieces = list(response.iter_content(None))
            yield saw(request, response.status_code, response.raw.headers.iteritems(), pieces)


def ask_urllib3(asked, name):
    with urllib3.PoolManager() as pool:
        for request in asked:
            options = options_of(request, name)
            headers = urllib3.HTTPHeaderDict(options["headers"])
            headers.setdefault("accept-encoding", "gzip")
            response = pool.request(
                request["method"], request["url"], headers=headers, body=options["content"], preload_content=False
            )
            yield saw(
                request, response.status, response.headers.iteritems(), list(response.stream(decode_content=True))
            )


async def ask_aiohttp(asked, name):
    seen = []
    async with aiohttp.ClientSession() as session:
        for request in asked:
            options = options_of(request, name)
            # a header of its own is added where there is none, and the recorded request is to be sent as it was
            alone = {"headers": options["headers"], "skip_auto_headers": ["content-type"]}
            content = yarl.URL(request["url"], encoded=True), options["content"]
            async with session.request(request["method"], content[0], data=content[1] or None, **alone) as response:
                pieces = [piece async for piece, _ in response.content.iter_chunks()]
                seen.append(saw(request, response.status, response.headers.items(), pieces))
    return seen


MAKERS = {
    "requests": lambda asked, name: list(ask_requests(asked, name)),
    "urllib3": lambda asked, name: list(ask_urllib3(asked, name)),
    "aiohttp": lambda asked, name: asyncio.run(ask_aiohttp(asked, name)),
}


def make(client, requests, name):
    if client in MAKERS:
        return MAKERS[client](requests, name)
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
@pytest.mark.parametrize("client", PLAN["all"])
def test_all_files(client, agent_run):
    requests = [request for file in PLAN["files"].values() for request in file]

    seen = make(client, requests, f"{client}, all in one")

    keep(f"{client}, all in one", {"file": None, "seen": seen, "cassette": str(agent_run.cassette)})
