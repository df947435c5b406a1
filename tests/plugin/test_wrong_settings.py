"""Settings that cannot be meant, in the ini file and in fixtures: one error, which names the place.

Those of the marker are in ``test_marker.py``.
"""

from __future__ import annotations

import pytest

from tests.support.suite import Provider, Suite, failure

TESTS = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it(): ask("hello")

@pytest.mark.agent_cassette
def test_again(): ask("hello")

def test_unmarked(): pass
"""

WRONG = [
    (
        "agent_record_mode = sometimes",
        "agent_record_mode='sometimes' is not one of none, once, new_episodes, all, rewrite",
    ),
    ("agent_replay = strickt", "agent_replay='strickt' is not one of strict, warn, hybrid"),
    ("agent_unplayed = maybe", "agent_unplayed='maybe' is not one of fail, warn, ignore"),
    ("agent_ignore = messages", "agent_ignore: rule 'messages' is not understood; write a path such as *"),
    ("agent_ignore = $.a =~ (", "agent_ignore: in '$.a =~ (' the expression does not compile: *"),
    (
        "agent_match_headers = X-A: b",
        "agent_match_headers: 'X-A: b' is no header's name; write it alone, as 'x-tenant'",
    ),
    ("agent_hosts = http://a.com/v1", "agent_hosts: 'http://a.com/v1' is no host: *; write 'a.com'"),
    ("agent_hosts = a.com b.com", "agent_hosts: 'a.com b.com' is not one host; write each *"),
    ("agent_background = https://a.com", "agent_background: 'https://a.com' is no host or host/path: *; write 'a.com'"),
    ("agent_redact_patterns = (x", "agent_redact_patterns: in '(x' the expression does not compile: *"),
    ("agent_redact_patterns = x*", "agent_redact_patterns: 'x[*]' matches the empty string, *"),
    ("agent_redact_headers = a, b", "agent_redact_headers: 'a, b' is no header's name; *"),
    ("agent_redact_json = +", "agent_redact_json: '+' names nothing; *"),
    ("agent_redact_env = $TOKEN", "agent_redact_env: '$TOKEN' is no variable's name; *"),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_a_wrong_value_in_the_ini_file_stops_pytest_before_any_test_naming_key_and_file(
    suite: Suite, provider: Provider, line: str, message: str
) -> None:
    suite.write(TESTS)
    suite.ini(line)

    result = suite.run("--record-mode=once")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [error, end] = result.errlines
    result.stderr.fnmatch_lines([f"ERROR: {suite.path / 'tox.ini'}: {message}"])
    assert (error.startswith("ERROR: "), end) == (True, "")
    assert "Error" not in result.stdout.str()
    assert provider.seen == []


def test_every_list_in_the_ini_file_is_looked_at(suite: Suite) -> None:
    options = suite.run("--help").stdout.str()

    known = {line.split()[0] for line in options.splitlines() if line.startswith("  agent_")}
    wrong = {line.split()[0] for line, _ in WRONG}

    assert known - wrong == {"agent_store"}  # a path


def test_a_wrong_value_on_the_command_line_is_told_as_what_it_is(suite: Suite) -> None:
    suite.write(TESTS)
    suite.ini("agent_hosts = a.com")

    result = suite.run("-o", "agent_hosts=http://a.com")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: -o agent_hosts: 'http://a.com' is no host: *; write 'a.com'"])


def test_a_suite_without_marked_tests_is_not_asked_about_it(suite: Suite) -> None:
    suite.write("def test_it(): pass")
    suite.ini("agent_ignore = messages", "agent_replay = strickt")

    suite.run().assert_outcomes(passed=1)


def test_a_worker_of_xdist_says_as_clearly_what_is_wrong_in_the_ini_file(suite: Suite) -> None:
    suite.write(TESTS)
    suite.ini("agent_hosts = http://a.com")

    result = suite.run_spread(workers=1)

    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        ["*ERROR collecting test_it.py*", f"{suite.path / 'tox.ini'}: agent_hosts: 'http://a.com' is no host: *"]
    )
    assert "INTERNALERROR" not in result.stdout.str()


@pytest.mark.parametrize(
    ("fixture", "value", "message"),
    [
        (
            "agent_config",
            "{'hosts': 'http://a.com'}",
            "agent_config fixture: hosts: 'http://a.com' is no host: a scheme",
        ),
        ("agent_config", "{'redact_patterns': ['(']}", "agent_config fixture: redact_patterns: in '(' the expression"),
        ("agent_config", "{'loopback': 0}", "agent_config fixture: loopback=0 must be True or False"),
        ("agent_config", "'once'", "agent_config must return settings by name, as {'hosts': [...]}, not 'once'"),
        ("agent_config", "None", "agent_config must return settings by name, as {'hosts': [...]}, not None"),
        ("agent_cassette_dir", "None", "agent_cassette_dir must return the path of a folder, not None"),
    ],
)
def test_a_wrong_value_in_a_fixture_is_told_by_the_fixture(
    suite: Suite, fixture: str, value: str, message: str
) -> None:
    suite.write(TESTS)
    suite.pytester.makeconftest(
        f"""
        import pytest

        @pytest.fixture(scope="session")
        def {fixture}():
            return {value}
        """
    )

    result = suite.run()

    result.assert_outcomes(passed=1, errors=2)
    assert failure(result).startswith(f"ConfigurationError: {message}")
