"""Unmarked tests in a session with marked ones: as if the plugin were not there."""

from __future__ import annotations

import httpx
import httpx2
import pytest

# Loaded before the suites run in this process, so that they import them in no time.
import pytest_httpx  # noqa: F401
import respx  # noqa: F401

from tests.support.openai import chat_stream
from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, held_back

MARKED = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_marked(): ask("marked")
"""


def run_beside_a_marked_test(suite: Suite, unmarked: str) -> pytest.RunResult:
    """Run an unmarked test after a marked one: recorded first, then replayed, with the patches in place."""
    suite.pytester.makepyfile(test_a_marked=MARKED, test_b_unmarked=unmarked)
    suite.record()
    return suite.run()


def test_a_live_request_goes_out(suite: Suite, provider: Provider) -> None:
    unmarked = """
    from agent import ask, get

    def test_unmarked():
        assert ask("unmarked") == "echo: unmarked"
        assert get("/path") == "/path"
    """

    result = run_beside_a_marked_test(suite, unmarked)

    result.assert_outcomes(passed=2)
    assert len([seen for seen in provider.seen if b"unmarked" in seen.body]) == 2
    assert suite.cassettes() == ["cassettes/test_a_marked/test_marked.jsonl"]


def test_a_connection_that_fails_fails_alike(suite: Suite) -> None:
    unmarked = """
    import httpx, pytest

    def test_unmarked():
        with pytest.raises(httpx.ConnectError):
            httpx.get("http://127.0.0.1:9/", trust_env=False)
    """

    result = run_beside_a_marked_test(suite, unmarked)

    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("client", ["httpx", "httpx2"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_comes_chunk_by_chunk(suite: Suite, provider: Provider, client: str, is_async: bool) -> None:
    def respond(seen: Seen) -> Answer:
        if b"unmarked" not in seen.body:
            return chat_stream(["marked"])
        first = suite.path / "first-chunk"
        first.unlink(missing_ok=True)
        answer = chat_stream(["one", "two", "three"], gap=0.005)
        return Answer(headers=answer.headers, chunks=held_back(answer, until=first))

    provider.respond = respond
    read = """
        async with client.AsyncClient(verify=False) as http:
            async with http.stream("POST", URL, json=body("unmarked")) as response:
                async for chunk in response.aiter_bytes():
                    chunks.append(chunk)
                    open("first-chunk", "w").close()
    """
    if not is_async:
        read = read.replace("async ", "").replace("AsyncClient", "Client").replace("aiter", "iter")
    unmarked = f"""
    import asyncio
    import {client} as client
    from agent import URL, body

    def test_unmarked():
        asyncio.run(main())
        assert len(chunks) == 4

    chunks = []

    async def main():
    {read}
    """
    suite.pytester.makepyfile(
        test_a_marked=MARKED.replace('ask("marked")', 'CLIENT.post(URL, json=body("marked"))').replace(
            "import ask", "import CLIENT, URL, body"
        ),
        test_b_unmarked=unmarked,
    )

    recorded = suite.run("--record-mode=once")
    replayed = suite.run()

    recorded.assert_outcomes(passed=2)
    replayed.assert_outcomes(passed=2)


def test_respx_answers_as_without_us(suite: Suite, provider: Provider) -> None:
    unmarked = """
    import httpx, respx

    @respx.mock
    def test_decorated():
        route = respx.get("https://example.org/").mock(return_value=httpx.Response(204))
        assert httpx.get("https://example.org/").status_code == 204
        assert route.called

    def test_fixture(respx_mock):
        class Pieces(httpx.SyncByteStream):
            def __iter__(self):
                yield b"one"
                yield b"two"
        respx_mock.post("https://example.org/").mock(return_value=httpx.Response(200, stream=Pieces()))
        with httpx.stream("POST", "https://example.org/") as response:
            assert list(response.iter_raw()) == [b"one", b"two"]
    """

    result = run_beside_a_marked_test(suite, unmarked)

    result.assert_outcomes(passed=3)
    assert all(b"marked" in seen.body for seen in provider.seen)


def test_pytest_httpx_answers_as_without_us(suite: Suite, provider: Provider) -> None:
    unmarked = """
    import asyncio, httpx
    from pytest_httpx import IteratorStream

    def test_plain(httpx_mock):
        httpx_mock.add_response(url="https://example.org/", json={"a": 1})
        assert httpx.get("https://example.org/").json() == {"a": 1}

    def test_stream(httpx_mock):
        httpx_mock.add_response(stream=IteratorStream([b"one", b"two"]))
        with httpx.stream("GET", "https://example.org/") as response:
            assert list(response.iter_raw()) == [b"one", b"two"]

    def test_async(httpx_mock):
        httpx_mock.add_response(text="hello")
        async def main():
            async with httpx.AsyncClient() as client:
                return (await client.get("https://example.org/")).text
        assert asyncio.run(main()) == "hello"
    """

    result = run_beside_a_marked_test(suite, unmarked)

    result.assert_outcomes(passed=4)
    assert all(b"marked" in seen.body for seen in provider.seen)


def test_a_mock_transport_answers_as_without_us_also_in_a_marked_test(suite: Suite, provider: Provider) -> None:
    unmarked = """
    import httpx, pytest

    def check():
        with httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(201))) as client:
            assert client.get("https://example.org/").status_code == 201

    def test_unmarked():
        check()

    @pytest.mark.agent_cassette
    def test_also_marked():
        check()
    """

    result = run_beside_a_marked_test(suite, unmarked)

    result.assert_outcomes(passed=3)
    assert suite.cassettes() == ["cassettes/test_a_marked/test_marked.jsonl"]


def test_pytest_socket_blocks_what_it_would_block(suite: Suite) -> None:
    unmarked = """
    import pytest
    from pytest_socket import SocketBlockedError
    from agent import ask

    def test_unmarked():
        with pytest.raises(SocketBlockedError):
            ask("unmarked")
    """
    suite.pytester.makepyfile(test_a_marked=MARKED, test_b_unmarked=unmarked)
    suite.record("test_a_marked.py")

    result = suite.run("--disable-socket")

    result.assert_outcomes(passed=2)


def test_the_session_leaves_the_clients_as_they_were(suite: Suite) -> None:
    places = [
        (transport, name)
        for client in (httpx, httpx2)
        for transport, name in (
            (client.HTTPTransport, "handle_request"),
            (client.AsyncHTTPTransport, "handle_async_request"),
        )
    ]
    before = [getattr(transport, name) for transport, name in places]
    suite.write(
        MARKED
        + """
def test_patched():
    import httpx, httpx2
    assert httpx.HTTPTransport.handle_request.__module__.startswith("pytest_agentreplay")
    assert httpx2.HTTPTransport.handle_request.__module__.startswith("pytest_agentreplay")
"""
    )

    suite.record()

    assert [getattr(transport, name) for transport, name in places] == before


def test_a_session_without_marked_tests_is_never_patched(suite: Suite) -> None:
    suite.write(
        """
        def test_it():
            import httpx
            assert httpx.HTTPTransport.handle_request.__module__ == "httpx._transports.default"
        """
    )

    result = suite.run()

    result.assert_outcomes(passed=1)
