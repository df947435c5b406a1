"""The pytest plugin: parse, call one library function, print.

Loaded in every session, so this package imports nothing heavy; what a marked test needs comes with
:mod:`pytest_agentreplay.plugin.capture`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import (
    AgentReplayError,
    ConfigurationError,
    ReplayDivergenceWarning,
    ReplayStop,
)
from pytest_agentreplay.plugin import options, state
from pytest_agentreplay.plugin.alike import CHANGE, SharedReports
from pytest_agentreplay.plugin.attempts import ATTEMPT, INTERRUPTIONS, Attempt
from pytest_agentreplay.plugin.failures import repeated_error, stop_behind, words_of
from pytest_agentreplay.plugin.goldens import Goldens, event_snapshot, mermaid_snapshot
from pytest_agentreplay.plugin.state import agent_state, agent_state_seed, agent_store
from pytest_agentreplay.plugin.summary import ATTRIBUTE, Summary
from pytest_agentreplay.plugin.unused_goldens import UnusedGoldens

# Fixtures from other modules.
__all__ = ["agent_state", "agent_state_seed", "agent_store", "event_snapshot", "mermaid_snapshot"]

if TYPE_CHECKING:
    from pytest_agentreplay.agent_run import AgentRun
    from pytest_agentreplay.plugin.capture import Capture
    from pytest_agentreplay.records import Phase
    from pytest_agentreplay.session import Session

_CAPTURE: pytest.StashKey[Capture] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    options.add_options(parser)
    state.add_options(parser)
    if getattr(pluginmanager, "_conftest_plugins", None):  # registered by a conftest: the hook below has run already
        options.add_record_mode(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> None:
    options.add_record_mode(parser)


def pytest_configure(config: pytest.Config) -> None:
    options.register_marker(config)
    config.pluginmanager.register(Summary(), "agent_cassette_summary")
    config.pluginmanager.register(Goldens(), "agent_cassette_goldens")
    config.pluginmanager.register(UnusedGoldens(), "agent_cassette_unused_goldens")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SharedReports(), "agent_cassette_shared_reports")


def pytest_unconfigure(config: pytest.Config) -> None:
    capture = config.stash.get(_CAPTURE, None)
    if capture is not None:
        capture.uninstall()
        del config.stash[_CAPTURE]


def pytest_report_header(config: pytest.Config) -> str:
    return f"agent cassettes: {options.describe_modes(config)}"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Make a marker that cannot be meant an error of its module; a worker of pytest-xdist can say nothing else."""
    report = yield
    try:
        for item in _marked(report.result):
            options.check_marker(item)
            if hasattr(collector.config, "workerinput"):
                options.check_session(item)
    except ConfigurationError as error:
        report.outcome, report.longrepr, report.result = "failed", str(error), []
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in _marked(items):
        try:
            options.check_marker(item)  # a conftest may have put it on since
            options.check_session(item)
        except ConfigurationError as error:
            raise pytest.UsageError(str(error)) from error
        if "agent_state" in item.fixturenames:  # type: ignore[attr-defined]
            _request_first(item, "agent_state")  # its log begins where the run does
        _request_first(item, "agent_run")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if item.get_closest_marker(options.MARKER) is not None and _CAPTURE not in item.config.stash:
        from pytest_agentreplay.plugin.capture import Capture

        item.config.stash[_CAPTURE] = Capture()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    capture = request.config.stash.get(_CAPTURE, None)
    if capture is None:
        return (yield)
    capture.own_fixture(fixturedef)
    if not capture.shares(fixturedef):
        return (yield)
    setup, teardown = (capture.phase_of(fixturedef, request, phase=phase) for phase in ("setup", "teardown"))
    fixturedef.addfinalizer(lambda: capture.end_shared(teardown, teardown.error))  # last in, first out: comes last
    add = request.addfinalizer
    request.addfinalizer = lambda finalizer: add(teardown.watched(finalizer))  # type: ignore[method-assign]
    capture.begin_shared(setup)
    try:
        value = yield
    except BaseException as error:
        capture.end_shared(setup, error)
        raise
    fixturedef.addfinalizer(lambda: capture.begin_shared(teardown))  # also where the setup fails at its end
    capture.end_shared(setup, None)
    return value


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[ATTEMPT] = Attempt()
    try:
        yield
    except BaseException as error:
        _stop_if_diverged(item, error)
        raise
    _stop_if_diverged(item, None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    attempt = item.stash[ATTEMPT]
    session = attempt.session
    if session is None:
        return (yield)
    session.begin("call")
    item.config.stash[_CAPTURE].own(item, session)
    try:
        yield
    except BaseException as error:
        _stop_if_diverged(item, error)
        raise
    kept = _kept_errors(item)
    passed = not kept
    if session.player.stopped is not None:
        kept.clear()
    _judge(session, item, phases=("setup", "call"), passed=passed)
    attempt.passed = passed
    return None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    attempt = item.stash[ATTEMPT]
    session = attempt.session
    if session is None:
        return (yield)
    session.begin("teardown")
    capture = item.config.stash[_CAPTURE]
    was_told = attempt.has_told  # else a thread may have met it since
    try:
        try:
            yield
        finally:
            capture.release(session)  # what a thread meets from here on is told by the thread
        if not was_told:
            _judge(session, item, phases=("teardown",), passed=attempt.passed)
    except BaseException as error:
        attempt.passed = False
        if not was_told:
            _stop_if_diverged(item, error)
        raise
    finally:
        _warn(session, item)
        capture.close(session, passed=attempt.passed)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    attempt = item.stash.get(ATTEMPT, None)
    error = repeated_error(call.excinfo.value) if call.excinfo is not None else None
    if isinstance(error, ReplayStop | AgentReplayError) and report.failed:
        report.longrepr = words_of(error, attempt)
        change = getattr(stop_behind(error) or error, "change", None)
        if change is not None and attempt is not None and attempt.session is not None:
            setattr(report, CHANGE, [change, attempt.session.player.test])
    if report.failed and attempt is not None:
        attempt.doubt(report)
    capture = item.config.stash.get(_CAPTURE, None)
    if call.when == "teardown" and capture is not None:
        setattr(report, ATTRIBUTE, capture.take_outcomes())
    state.report_branch(item, report)
    return report


@pytest.fixture(scope="session")
def agent_config() -> dict[str, Any]:
    """Settings for the marked tests in reach, by the names of the marker's arguments.  Override it."""
    return {}


@pytest.fixture(scope="module")
def agent_cassette_dir(request: pytest.FixtureRequest) -> Path:
    """The folder of a module's cassettes: ``cassettes/<module>`` beside it.  Override it to move them."""
    return request.path.parent / "cassettes" / request.path.stem


@pytest.fixture
def agent_run(request: pytest.FixtureRequest, agent_config: dict[str, Any], agent_cassette_dir: Path) -> AgentRun:
    """The run of a marked test: its hash chain, turns and usage so far."""
    item = request.node
    if item.get_closest_marker(options.MARKER) is None:
        raise ConfigurationError(
            f"{item.nodeid} uses agent_run without @pytest.mark.{options.MARKER}; put the marker on it"
        )
    from pytest_agentreplay.plugin.capture import run_of

    session = item.config.stash[_CAPTURE].open(item, folder=agent_cassette_dir, fixture=agent_config)
    item.stash[ATTEMPT].session = session
    return run_of(session)


def _marked(nodes: Iterable[pytest.Item | pytest.Collector]) -> Iterator[pytest.Item]:
    return (
        node for node in nodes if isinstance(node, pytest.Item) and node.get_closest_marker(options.MARKER) is not None
    )


def _request_first(item: pytest.Item, name: str) -> None:
    """Make a test request a fixture before all others, so that their requests are recorded too."""
    names = [other for other in item.fixturenames if other != name]  # type: ignore[attr-defined]
    item.fixturenames = [name, *names]  # type: ignore[attr-defined]


def _stop_if_diverged(item: pytest.Item, error: BaseException | None) -> None:
    """Raise the divergence that a test met, whatever became of it on the way up."""
    __tracebackhide__ = True
    attempt = item.stash[ATTEMPT]
    session = attempt.session
    stopped = attempt.told = (session.player.stopped if session is not None else None) or stop_behind(error)
    if stopped is not None and error is not stopped and not isinstance(error, INTERRUPTIONS):
        raise stopped from error


def _kept_errors(item: pytest.Item) -> list[Any]:
    """Return what a unittest case raised: it keeps that to itself, and pytest puts it in the place of what we raise."""
    kept: list[Any] | None = getattr(item, "_excinfo", None)
    return [] if kept is None else kept


def _judge(session: Session, item: pytest.Item, *, phases: tuple[Phase, ...], passed: bool) -> None:
    __tracebackhide__ = True
    stopped = item.stash[ATTEMPT].told = session.judge(phases, passed=passed)
    _warn(session, item)
    if stopped is not None:
        raise stopped


def _warn(session: Session, item: pytest.Item) -> None:
    for report in session.player.take_warnings():
        item.warn(ReplayDivergenceWarning(report))
