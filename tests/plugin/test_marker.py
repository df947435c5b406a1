"""The marker: where it may stand, and what it refuses."""

from __future__ import annotations

import pytest

from tests.support.suite import AGENT, Provider, Suite


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("mode='once'", "unknown argument mode; known are allow_repeats, *"),
        ("freeze=True, max_cost=1", "freeze, max_cost is not available yet in this version"),
        ("'a', 'b'", "takes one positional argument, the cassette's name"),
        ("'a', name='b'", "takes one positional argument, the cassette's name"),
    ],
)
def test_arguments_that_cannot_be_meant_fail_at_collection(suite: Suite, arguments: str, message: str) -> None:
    suite.write(
        f"""
        import pytest

        @pytest.mark.agent_cassette({arguments})
        def test_it(): pass
        """
    )

    result = suite.run()

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        ["*ERROR collecting test_it.py*", f"test_it.py::test_it: @pytest.mark.agent_cassette: {message}"]
    )
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("record_mode='sometimes'", "record_mode='sometimes' is not one of none, once, new_episodes, all, rewrite"),
        ("replay='hybird'", "replay='hybird' is not one of strict, warn, hybrid"),
        ("unplayed='perhaps'", "unplayed='perhaps' is not one of fail, warn, ignore"),
        ("allow_repeats=1", "allow_repeats=1 must be True or False"),
        ("pace='slow'", "pace='slow' must be True or False"),
        ("pin=1", "@pytest.mark.agent_cassette: pin=1 must be True or False"),
        ("pin='no', record_mode='once'", "@pytest.mark.agent_cassette: pin='no' must be True or False"),
        ("name=5", "@pytest.mark.agent_cassette: name=5 must be a string"),
        ("tools={'buy': True}", "tools[[]'buy'[]]=True is not one of replay, live, refuse"),
        ("tools={print: 'live'}", "tools: <built-in function print> is no tool's name; write the name that *"),
        ("ignore='messages'", "ignore: rule 'messages' is not understood; write a path such as *"),
        ("ignore=['$.a =~ (']", "ignore: in '$.a =~ (' the expression does not compile: *"),
        ("match_headers='X-A: b'", "match_headers: 'X-A: b' is no header's name; write it alone, as 'x-tenant'"),
        ("hosts='http://a.com/v1'", "hosts: 'http://a.com/v1' is no host: *; write 'a.com'"),
        ("ignore=[1]", "ignore=[[]1[]] must be a string or a list of strings"),
        ("match_headers=1", "match_headers=1 must be a string or a list of strings"),
    ],
)
def test_values_that_cannot_be_meant_fail_at_collection(suite: Suite, argument: str, message: str) -> None:
    suite.write(
        f"""
        import pytest

        @pytest.mark.agent_cassette({argument})
        def test_it(): pass
        """
    )

    result = suite.run()

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*ERROR collecting test_it.py*", f"test_it.py::test_it: *{message}"])
    assert "Traceback" not in result.stdout.str()


def test_a_faulty_marker_leaves_other_modules_alone(suite: Suite) -> None:
    suite.write(
        "import pytest\n\n@pytest.mark.agent_cassette(mode='once')\ndef test_it(): pass\n",
        test_other="def test_other(): pass",
    )

    result = suite.run("--continue-on-collection-errors")

    result.assert_outcomes(passed=1, errors=1)


def test_a_worker_of_xdist_says_as_clearly_that_an_argument_is_unknown(suite: Suite) -> None:
    suite.write("import pytest\n\n@pytest.mark.agent_cassette(mode='once')\ndef test_it(): pass\n")

    result = suite.run_spread(workers=1)

    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        ["test_it.py::test_it: @pytest.mark.agent_cassette: unknown argument mode; known are *"]
    )
    assert "INTERNALERROR" not in result.stdout.str()


def test_the_marker_on_a_class_gives_each_test_its_cassette(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        class TestIt:
            def test_one(self): ask("one")
            def test_two(self): ask("two")
        """
    )

    suite.record()

    assert suite.cassettes() == ["cassettes/test_it/TestIt.test_one.jsonl", "cassettes/test_it/TestIt.test_two.jsonl"]


def test_the_marker_on_a_module_gives_each_test_its_cassette(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        pytestmark = pytest.mark.agent_cassette

        def test_one(): ask("one")
        def test_two(): ask("two")
        def test_three(): pass
        """
    )

    suite.record()

    assert suite.cassettes() == ["cassettes/test_it/test_one.jsonl", "cassettes/test_it/test_two.jsonl"]


def test_a_marker_put_on_by_a_conftest_hook_counts_like_any_other(suite: Suite) -> None:
    suite.write(
        "from agent import ask\n\ndef test_it(): ask('hello')\n",
        conftest="""
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.agent_cassette)
        """,
    )

    suite.record()

    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]


def test_a_faulty_marker_put_on_by_a_conftest_hook_is_refused_too(suite: Suite) -> None:
    suite.write(
        "def test_it(): pass",
        conftest="""
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.agent_cassette(mode="once"))
        """,
    )

    result = suite.run()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[0].startswith(
        "ERROR: test_it.py::test_it: @pytest.mark.agent_cassette: unknown argument mode"
    )


def test_requests_of_fixtures_are_recorded_whatever_their_order(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.fixture(autouse=True)
        def first():
            ask("before")
            yield
            ask("after")

        @pytest.mark.agent_cassette
        def test_it(first): ask("during")
        """
    )

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=1)
    assert [line.get("phase") for line in suite.lines() if line["kind"] == "model"] == ["setup", None, "teardown"]


def test_the_marker_is_declared_with_its_arguments(suite: Suite) -> None:
    result = suite.run("--markers")

    result.stdout.fnmatch_lines(["@pytest.mark.agent_cassette(name=None, [*], record_mode=None, *"])


def test_strict_markers_know_it(suite: Suite) -> None:
    suite.write("import pytest\n\n@pytest.mark.agent_cassette\ndef test_it(): pass\n")

    result = suite.run("--strict-markers")

    result.assert_outcomes(passed=1)


def test_on_something_that_is_no_python_test_it_is_refused_by_name(suite: Suite) -> None:
    suite.write(
        "def test_it(): pass",
        conftest="""
        import pytest

        class Line(pytest.Item):
            def runtest(self): pass

        class Lines(pytest.File):
            def collect(self):
                yield Line.from_parent(self, name="first")

        def pytest_collect_file(file_path, parent):
            if file_path.suffix == ".lines":
                return Lines.from_parent(parent, path=file_path)

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.agent_cassette)
        """,
    )
    suite.path.joinpath("all.lines").touch()

    result = suite.run()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[0].startswith("ERROR: all.lines::first: @pytest.mark.agent_cassette: only ")


def test_a_doctest_can_be_recorded(suite: Suite, provider: Provider) -> None:
    suite.write(
        "",
        conftest="""
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.agent_cassette)
        """,
    )
    example = '''
def example():
    """
    >>> ask("hello")
    'echo: hello'
    """
'''
    suite.path.joinpath("agent.py").write_text(AGENT + example)

    suite.record("--doctest-modules", "agent.py")
    provider.stop()
    result = suite.run("--doctest-modules", "agent.py")

    result.assert_outcomes(passed=1)
    assert suite.cassettes() == ["cassettes/agent/agent.example.jsonl"]
