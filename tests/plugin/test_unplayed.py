"""Recorded steps that a passing test no longer asks for."""

from __future__ import annotations

import pytest

from tests.support.suite import Provider, Suite, failure

PHASES = """
import pytest
from agent import ask, get

WANTED = {wanted!r}

def maybe(text):
    if text in WANTED:
        ask(text)

@pytest.fixture
def around():
    maybe("setup")
    yield
    maybe("teardown")

@pytest.mark.agent_cassette({marker})
def test_it(around):
    maybe("call")
"""
ALL = ("setup", "call", "teardown")


def recorded(suite: Suite, provider: Provider) -> None:
    suite.write(PHASES.format(wanted=ALL, marker=""))
    suite.record()
    provider.stop()


@pytest.mark.parametrize("left", ["setup", "call"])
def test_what_setup_and_call_left_is_judged_at_the_end_of_the_call(suite: Suite, provider: Provider, left: str) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=[phase for phase in ALL if phase != left], marker=""))

    result = suite.run()

    result.assert_outcomes(failed=1)
    report = failure(result)
    assert "Unplayed: 1 recorded step was not asked for by the end of the call." in report
    assert f": chat m ({left})" in report


def test_what_teardown_left_is_judged_after_it(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=["setup", "call"], marker=""))

    result = suite.run()

    result.assert_outcomes(passed=1, errors=1)
    report = failure(result)
    assert "Unplayed: 1 recorded step was not asked for by the end of the teardown." in report
    assert ": chat m (teardown)" in report


def test_a_test_that_fails_by_itself_is_not_judged(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=["setup"], marker="") + "    assert False, 'mine'\n")

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert "AssertionError: mine" in failure(result)


@pytest.mark.parametrize("ending", ["pytest.skip('today')", "pytest.xfail('today')"])
def test_a_test_that_skips_itself_is_not_judged(suite: Suite, provider: Provider, ending: str) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=["setup"], marker="") + f"    {ending}\n")

    result = suite.run()

    assert result.ret == pytest.ExitCode.OK
    assert result.reprec.countoutcomes()[1:] == [1, 0]  # type: ignore[attr-defined]


def test_a_skipped_test_is_not_judged(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=(), marker="").replace("@pytest.mark", "@pytest.mark.skip\n@pytest.mark"))

    result = suite.run()

    result.assert_outcomes(skipped=1)


def test_warn_warns_with_the_report(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=["setup", "teardown"], marker="unplayed='warn'"))

    result = suite.run()

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "*ReplayDivergenceWarning: Unplayed: 1 recorded step was not asked for*",
            "*Or hear nothing of it: @pytest.mark.agent_cassette(unplayed='ignore')",
        ]
    )
    assert "Or allow it" not in result.stdout.str()


def test_what_is_left_in_warn_mode_comes_with_the_setting_that_silences_it(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=["setup", "teardown"], marker=""))

    result = suite.run("--agent-replay=warn")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*Or hear nothing of it: @pytest.mark.agent_cassette(unplayed='ignore')"])
    assert "Or allow it" not in result.stdout.str()


def test_a_failure_comes_with_the_setting_that_allows_it(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=["setup", "teardown"], marker=""))

    report = failure(suite.run())

    assert report.endswith("  Or allow it: @pytest.mark.agent_cassette(unplayed='warn')")


def test_ignore_says_nothing(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=(), marker="unplayed='ignore'"))

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert "Unplayed" not in result.stdout.str()


def test_the_ini_file_decides_where_the_marker_says_nothing(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=(), marker=""))
    suite.ini("agent_unplayed = ignore")

    result = suite.run()

    result.assert_outcomes(passed=1)


def test_once_judges_a_cassette_that_is_there(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=["setup"], marker=""))

    result = suite.run("--record-mode=once")

    assert "Unplayed: 1 recorded step " in failure(result)


def test_a_divergence_is_not_followed_by_a_list_of_what_is_left(suite: Suite, provider: Provider) -> None:
    recorded(suite, provider)
    suite.write(PHASES.format(wanted=["setup"], marker="").replace('maybe("call")', 'ask("else")'))

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert "Unplayed" not in result.stdout.str()


def test_background_traffic_may_stay_unplayed_and_may_repeat(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask, get

    @pytest.mark.agent_cassette
    def test_it():
        ask("hello")
        for _ in range(TIMES):
            get("/telemetry/v1/ping")
    """
    suite.ini("agent_background = 127.0.0.1/telemetry/")
    suite.write(test.replace("TIMES", "1"))
    suite.record()
    provider.stop()

    suite.write(test.replace("TIMES", "0"))
    less = suite.run()
    suite.write(test.replace("TIMES", "3"))
    more = suite.run()

    less.assert_outcomes(passed=1)
    more.assert_outcomes(passed=1)


def test_other_traffic_that_no_dialect_knows_is_held_to_the_rule(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import get

    @pytest.mark.agent_cassette
    def test_it():
        for _ in range(TIMES):
            get("/other")
    """
    suite.write(test.replace("TIMES", "2"))
    suite.record()
    provider.stop()

    suite.write(test.replace("TIMES", "1"))
    less = suite.run()
    suite.write(test.replace("TIMES", "3"))
    more = suite.run()

    assert "Unplayed: 1 recorded step " in failure(less)
    assert "Recording exhausted: wants call 3 " in failure(more)


def test_allowed_repeats_give_the_last_answer_again(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette(allow_repeats=True)
    def test_it():
        assert [ask("hello") for _ in range(TIMES)] == ["echo: hello"] * TIMES
    """
    suite.write(test.replace("TIMES", "1"))
    suite.record()
    provider.stop()
    suite.write(test.replace("TIMES", "3"))

    result = suite.run()

    result.assert_outcomes(passed=1)


SHARED = """
import pytest
from agent import ask

WANTED = {wanted!r}

def maybe(text):
    if text in WANTED:
        ask(text)

@pytest.fixture(scope="{scope}")
def shared():
    maybe("setup")
    ask("always")
    yield
    maybe("teardown")
    ask("always")

@pytest.mark.agent_cassette({marker})
def test_it(shared):
    ask("call")
"""


def replay_shared(
    suite: Suite, provider: Provider, *, scope: str, left: str, marker: str, args: tuple[str, ...] = ()
) -> pytest.RunResult:
    """Record a shared fixture, and replay it where its setup or its teardown does not ask for all of it."""
    suite.write(SHARED.format(wanted=["setup", "teardown"], scope=scope, marker=""))
    suite.record()
    provider.stop()
    suite.write(
        SHARED.format(wanted=[phase for phase in ("setup", "teardown") if phase != left], scope=scope, marker=marker)
    )
    return suite.run(*args)


@pytest.mark.parametrize("scope", ["module", "session"])
@pytest.mark.parametrize(
    ("left", "outcomes"),
    [("setup", {"errors": 1}), ("teardown", {"passed": 1, "errors": 1})],
    ids=["setup", "teardown"],
)
def test_what_a_shared_fixture_left_fails_the_test_it_is_for(
    suite: Suite, provider: Provider, scope: str, left: str, outcomes: dict[str, int]
) -> None:
    result = replay_shared(suite, provider, scope=scope, left=left, marker="unplayed='fail'")

    result.assert_outcomes(**outcomes)
    report = failure(result)
    assert f"Unplayed: 1 recorded step was not asked for by the end of the {left}." in report
    assert f"  test      {left} of fixture 'shared'" in report
    assert f"step 1: chat m ({left})" in report


@pytest.mark.parametrize("scope", ["module", "session"])
@pytest.mark.parametrize("left", ["setup", "teardown"])
def test_what_a_shared_fixture_left_can_be_a_warning(suite: Suite, provider: Provider, scope: str, left: str) -> None:
    result = replay_shared(suite, provider, scope=scope, left=left, marker="unplayed='warn'")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [f"*ReplayDivergenceWarning: Unplayed: 1 recorded step was not asked for by the end of the {left}.*"]
    )


@pytest.mark.parametrize("scope", ["module", "session"])
@pytest.mark.parametrize("left", ["setup", "teardown"])
def test_what_a_shared_fixture_left_can_be_ignored(suite: Suite, provider: Provider, scope: str, left: str) -> None:
    result = replay_shared(suite, provider, scope=scope, left=left, marker="unplayed='ignore'")

    result.assert_outcomes(passed=1)
    assert "Unplayed" not in result.stdout.str()


@pytest.mark.parametrize("scope", ["module", "session"])
@pytest.mark.parametrize("ending", ["pytest.exit('enough')", "raise KeyboardInterrupt"])
def test_what_ends_the_session_in_a_shared_teardown_ends_it_whatever_is_left(
    suite: Suite, provider: Provider, scope: str, ending: str
) -> None:
    suite.write(SHARED.format(wanted=["teardown"], scope=scope, marker=""))
    suite.record()
    provider.stop()
    suite.write(SHARED.format(wanted=[], scope=scope, marker="").replace('maybe("teardown")', ending))

    result = suite.run_apart()

    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "Unplayed" not in result.stdout.str()


ENDS = """
    def end():
        assert False, "mine"
    request.addfinalizer(end)
"""


@pytest.mark.parametrize(
    ("teardown", "failing"),
    [
        ('    yield\n    maybe("teardown")\n', '    yield\n    assert False, "mine"\n'),
        ("    yield\n", ENDS + "    yield\n"),
    ],
    ids=["yield", "addfinalizer"],
)
def test_a_shared_teardown_that_fails_by_itself_is_not_judged(
    suite: Suite, provider: Provider, teardown: str, failing: str
) -> None:
    shared = SHARED.replace("def shared():", "def shared(request):")
    suite.write(shared.format(wanted=["teardown"], scope="module", marker=""))
    suite.record()
    provider.stop()
    suite.write(shared.format(wanted=[], scope="module", marker="").replace(teardown, failing))

    result = suite.run()

    result.assert_outcomes(passed=1, errors=1)
    assert "AssertionError: mine" in failure(result)
    assert "Unplayed" not in result.stdout.str()


def test_what_differs_in_a_shared_fixture_is_warned_of_in_warn_mode(suite: Suite, provider: Provider) -> None:
    suite.write(SHARED.format(wanted=["setup"], scope="session", marker=""))
    suite.record()
    provider.stop()
    suite.write(SHARED.format(wanted=["setup"], scope="session", marker="").replace('maybe("setup")', 'ask("set up")'))

    result = suite.run("--agent-replay=warn")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*ReplayDivergenceWarning: Request changed: call 1 is not in the recording.*"])


def test_a_teardown_follows_the_settings_of_the_test_that_the_fixture_was_set_up_for(
    suite: Suite, provider: Provider
) -> None:
    later = "\n@pytest.mark.agent_cassette(unplayed='fail')\ndef test_later():\n    ask('later')\n"
    suite.write(SHARED.format(wanted=["setup", "teardown"], scope="session", marker="unplayed='ignore'") + later)
    suite.record()
    provider.stop()
    suite.write(SHARED.format(wanted=["setup"], scope="session", marker="unplayed='ignore'") + later)

    result = suite.run()

    result.assert_outcomes(passed=2)


OF_TWO = """
import os
import pytest
from agent import ask

@pytest.mark.agent_cassette(name="shared", unplayed="warn")
@pytest.mark.parametrize("word", {words})
def test_it(word):
    ask("both")
    if word != "a":
        ask("of the second")
"""


def test_what_another_test_recorded_is_not_advised_to_be_dropped(suite: Suite, provider: Provider) -> None:
    suite.write(OF_TWO.format(words=["both"]))
    suite.record()
    provider.stop()
    suite.write(OF_TWO.format(words=["a", "b"]))

    result = suite.run()

    result.assert_outcomes(passed=2, warnings=1)
    said = result.stdout.str()
    assert "of another test: test_it.py::test_it[both]" in said
    assert "agentreplay prune" not in said
    assert "If the run should ask for less now, and no other test plays the rest, record again: pytest " in said
