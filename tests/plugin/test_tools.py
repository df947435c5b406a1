"""Recorded tools: in replay their bodies do not run, wherever they are called, and each call gets its own result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.openai import call, completion
from tests.support.server import Answer, Seen, answer_json
from tests.support.suite import Provider, Suite, echo, effects, failure

# What the suites' tests import as `tools`: each run of a body leaves a line in a file.
TOOLS = """
import asyncio, os, random, time
from pathlib import Path
from pytest_agentreplay import recorded_tool

EFFECTS = Path(__file__).with_name("effects.txt")


def effect(what):
    with EFFECTS.open("a") as file:
        file.write(f"{what}\\n")


@recorded_tool
def weather(city: str) -> dict:
    effect(f"weather {city}")
    return {"city": city, "degrees": len(city), "at": time.time_ns()}


@recorded_tool
async def forecast(city: str, days: int = 3) -> list:
    effect(f"forecast {city} {days}")
    await asyncio.sleep(0)
    return [city, days, time.time_ns()]


class Desk:
    def __init__(self, name):
        self.name = name

    @recorded_tool
    def refund(self, order, *, cents):
        effect(f"refund {order} {cents}")
        return f"{self.name} paid {cents} for {order} at {time.time_ns()}"

    @classmethod
    @recorded_tool
    def count(cls, *orders):
        effect(f"count {orders}")
        return [cls.__name__, len(orders), time.time_ns()]

    @recorded_tool
    @staticmethod
    def hours(**wanted):
        effect(f"hours {wanted}")
        return {**wanted, "at": time.time_ns()}
"""


@pytest.fixture
def tools(suite: Suite) -> Suite:
    """A suite beside a module of recorded tools."""
    suite.pytester.makepyfile(tools=TOOLS)
    return suite


def tool_lines(suite: Suite, name: str = "test_it/test_it.jsonl") -> list[dict[str, Any]]:
    """Return the lines of the tools in a cassette."""
    return [line for line in suite.lines(name) if line["kind"] == "tool"]


def properties(result: pytest.RunResult) -> dict[str, dict[str, Any]]:
    """Return what each test said with ``record_property``."""
    reports = result.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined]
    return {report.nodeid: dict(report.user_properties) for report in reports if report.when == "call"}


def property_of(result: pytest.RunResult, name: str) -> Any:
    """Return what the test said with ``record_property``."""
    [said] = properties(result).values()
    return said[name]


WAYS = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
import pytest
from tools import Desk, effect, forecast, weather

CITIES = ["Oslo", "Rome", "Lima"]

def a_plain_call(run):
    return weather("Oslo")

def methods(run):
    return Desk("A").refund("x", cents=5), Desk.count(1, 2), Desk.hours(day="Monday")

def an_async_function(run):
    return asyncio.run(forecast("Oslo"))

def gathered(run):
    async def main():
        return await asyncio.gather(*(forecast(city) for city in CITIES))
    return asyncio.run(main())

def to_thread(run):
    async def main():
        return await asyncio.gather(*(asyncio.to_thread(weather, city) for city in CITIES))
    return asyncio.run(main())

def an_executor_of_the_loop(run):
    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, weather, city) for city in CITIES))
    return asyncio.run(main())

def a_thread_pool(run):
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(weather, CITIES))

def threads(run):
    found = {}
    started = [threading.Thread(target=lambda city=city: found.update({city: weather(city)})) for city in CITIES]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return sorted(found.items())

def a_pool_of_multiprocessings_threads(run):
    with ThreadPool(3) as pool:
        return pool.map(weather, CITIES)

def a_wrapped_lambda(run):
    return run.wrap(lambda city: effect(city) or [city, time.time_ns()], name="look")("Oslo")

def a_wrapped_bound_method(run):
    class Till:
        def close(self, order):
            effect(order)
            return f"{order} at {time.time_ns()}"
    return run.wrap(Till().close)("x")

WAYS = [a_plain_call, methods, an_async_function, gathered, to_thread, an_executor_of_the_loop, a_thread_pool, threads,
        a_pool_of_multiprocessings_threads, a_wrapped_lambda, a_wrapped_bound_method]

@pytest.mark.parametrize("way", WAYS)
@pytest.mark.agent_cassette
def test_it(way, agent_run, record_property):
    record_property("result", way(agent_run))
    record_property("called", sorted(agent_run.tools_called))

@pytest.mark.agent_cassette
async def test_in_the_loop_of_the_test(agent_run, record_property):
    record_property("result", [await forecast("Oslo"), await asyncio.to_thread(weather, "Rome")])
    record_property("called", sorted(agent_run.tools_called))
"""


def test_a_body_never_runs_in_replay_wherever_it_is_called(tools: Suite) -> None:
    tools.ini("asyncio_mode = auto")
    tools.write(WAYS)
    recorded = tools.record()
    done = effects(tools)

    replayed = tools.run()

    replayed.assert_outcomes(passed=12)
    assert effects(tools) == done
    assert properties(replayed) == properties(recorded)
    lines = [line for name in tools.cassettes() for line in tool_lines(tools, name.removeprefix("cassettes/"))]
    assert len(done) == len(lines) == 27


CHILDREN = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import pytest
from tools import weather

FORK = multiprocessing.get_context("fork")
EARLIER = FORK.Pool(1)  # its workers know nothing of any test
EARLIER_EXECUTOR = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
EARLIER_EXECUTOR.submit(int).result()

def in_a_process(method):
    process = multiprocessing.get_context(method).Process(target=weather, args=("Oslo",))
    process.start()
    process.join()
    assert process.exitcode == 0

def in_a_pool(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        pool.map(weather, ["Oslo"])

def in_an_executor(method):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        pool.submit(weather, "Oslo").result()

def in_an_earlier_pool(method):
    EARLIER.apply(weather, ["Oslo"])

def in_an_earlier_executor(method):
    EARLIER_EXECUTOR.submit(weather, "Oslo").result()

WAYS = [
    *((way, "fork") for way in (in_a_process, in_a_pool, in_an_executor, in_an_earlier_pool)),
    *((way, "spawn") for way in (in_a_process, in_a_pool, in_an_executor, in_an_earlier_executor)),
    (in_a_process, "forkserver"),
]

@pytest.mark.parametrize(("way", "method"), WAYS, ids=lambda found: getattr(found, "__name__", found))
@pytest.mark.agent_cassette
def test_child(way, method):
    way(method)

def test_beside_it():
    in_a_process("forkserver")  # started for a recorded test; this one is none
"""


def test_in_a_child_process_a_tool_is_refused_whatever_it_was_started_with(tools: Suite) -> None:
    tools.write(CHILDREN)

    recording = tools.run_apart("--record-mode=once", "-W", "ignore::DeprecationWarning")
    replaying = tools.run_apart("-W", "ignore::DeprecationWarning", "-k", "fork and not server")

    recording.assert_outcomes(failed=9, passed=1)
    replaying.assert_outcomes(failed=4, deselected=6)
    assert effects(tools) == ["weather Oslo"]  # the one test that is not recorded
    text = recording.stdout.str() + recording.stderr.str()
    named = "A call of the tool 'weather' was made in a child process of test_it.py::test_child["
    assert text.count(named) >= 9
    assert "Make it in the test's own process: in a thread, a task, or the main program." in text
    assert tools.cassettes() == []


def test_a_program_that_a_test_starts_is_refused_too(tools: Suite) -> None:
    tools.write(
        """
        import subprocess, sys
        import pytest

        @pytest.mark.agent_cassette
        def test_it():
            run = subprocess.run([sys.executable, "-c", "import tools; tools.weather('Oslo')"], capture_output=True)
            assert b"made in a child process of test_it.py::test_it" in run.stderr
            assert run.returncode == 1
        """
    )

    result = tools.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert effects(tools) == []


def test_outside_a_recorded_test_a_tool_is_the_function_that_it_decorates(tools: Suite) -> None:
    tools.write(
        """
        import inspect
        from tools import Desk, forecast, weather

        def test_it():
            assert weather("Oslo")["degrees"] == 4
            assert inspect.iscoroutinefunction(forecast)
            assert weather.__name__ == "weather"
            assert list(inspect.signature(Desk.refund).parameters) == ["self", "order", "cents"]
        """
    )

    result = tools.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert effects(tools) == ["weather Oslo"]
    assert tools.cassettes() == []


def test_equal_calls_with_different_results_replay_in_their_order(tools: Suite) -> None:
    tools.write(
        """
        import pytest
        from tools import weather

        @pytest.mark.agent_cassette
        def test_it(record_property):
            found = [weather("Oslo")["at"] for _ in range(3)]
            assert found == sorted(found)
            record_property("found", found)
        """
    )
    recorded = tools.record()

    replayed = tools.run()

    assert property_of(replayed, "found") == property_of(recorded, "found")
    assert len(set(property_of(replayed, "found"))) == 3
    assert effects(tools) == ["weather Oslo"] * 3


def test_a_call_is_known_by_its_arguments_however_they_are_given(tools: Suite) -> None:
    test = """
    import asyncio, pytest
    from tools import Desk, forecast

    @pytest.mark.agent_cassette
    def test_it():
        asyncio.run(forecast(ARGUMENTS))
        Desk("A").refund(MORE)
    """
    tools.write(test.replace("ARGUMENTS", "'Oslo', 5").replace("MORE", "'x', cents=1"))
    tools.record()
    tools.write(test.replace("ARGUMENTS", "days=5.0, city='Oslo'").replace("MORE", "cents=1, order='x'"))

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert [line["arguments"] for line in tool_lines(tools)] == [
        {"city": "Oslo", "days": 5},
        {"order": "x", "cents": 1},
    ]


ARGUMENTS: list[tuple[str, Any]] = [
    ("{'b', 'c', 'a'}", ["a", "b", "c"]),
    ("frozenset({'z', 'x', 'y'})", ["x", "y", "z"]),
    ("{'x': ({2, 1}, None)}", {"x": [[1, 2], None]}),
    ("{1: 'a', 2.5: 'b'}", {"1": "a", "2.5": "b"}),
    ("datetime.date(2025, 1, 2)", "2025-01-02"),
    ("b'\\xff'", "_w=="),
    ("Path('/a/b')", "/a/b"),
    ("Point(1, {'c', 'a', 'b'})", {"x": 1, "y": ["a", "b", "c"]}),
    ("1e400", float("inf")),
    ("2**70", 2**70),
    ("'\\ud800'", "\ud800"),
]


def test_arguments_are_kept_as_json_that_is_the_same_in_every_process(tools: Suite) -> None:
    tools.write(
        f"""
        import datetime
        from dataclasses import dataclass
        from pathlib import Path
        import pytest

        @dataclass
        class Point:
            x: int
            y: object

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            look = agent_run.wrap(lambda number, value: number, name="look")
            for number, value in enumerate([{", ".join(value for value, _ in ARGUMENTS)}]):
                assert look(number, value) == number
        """
    )
    tools.record()

    result = tools.run()

    result.assert_outcomes(passed=1)
    kept = [{"number": number, "value": value} for number, (_, value) in enumerate(ARGUMENTS)]
    assert [line["arguments"] for line in tool_lines(tools)] == kept


def test_arguments_are_those_of_the_moment_of_the_call(tools: Suite) -> None:
    tools.write(
        """
        import pytest

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            def fill(basket):
                basket.append("teapot")
                return basket
            found = agent_run.wrap(fill)([])
            found.append("changed by the agent")
            [step] = agent_run.tool_calls("fill")
            assert (step.arguments, step.result) == ({"basket": []}, ["teapot"])
        """
    )
    tools.record()

    result = tools.run()

    result.assert_outcomes(passed=1)


def test_arguments_that_do_not_fit_raise_the_functions_own_error_and_are_no_call(tools: Suite) -> None:
    tools.write(
        """
        import asyncio, pytest
        from tools import Desk, forecast, weather

        CALLS = [
            lambda: weather(),
            lambda: weather("Oslo", "Rome"),
            lambda: weather(town="Oslo"),
            lambda: asyncio.run(forecast()),
            lambda: Desk("A").refund("x"),
        ]

        @pytest.mark.agent_cassette
        def test_it(agent_run, record_property):
            errors = []
            for call in CALLS:
                with pytest.raises(TypeError) as caught:
                    call()
                errors.append(str(caught.value))
            assert agent_run.tools_called == []
            record_property("errors", errors)
        """
    )

    result = tools.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert property_of(result, "errors") == [
        "weather() missing 1 required positional argument: 'city'",
        "weather() takes 1 positional argument but 2 were given",
        "weather() got an unexpected keyword argument 'town'",
        "forecast() missing 1 required positional argument: 'city'",
        "Desk.refund() missing 1 required keyword-only argument: 'cents'",
    ]


def test_arguments_that_are_left_out_may_be_anything(tools: Suite) -> None:
    tools.write(
        """
        import pytest
        from pytest_agentreplay import recorded_tool

        @recorded_tool(name="lookup", ignore_arguments=("session",))
        def look_up(session, key, **options):
            return session()

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            assert look_up(lambda: 7, "a", deep=True) == 7
            assert agent_run.tools_called == ["lookup"]
        """
    )
    tools.record()

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert tool_lines(tools)[0]["arguments"] == {"key": "a", "deep": True}


REFUSED = """
import asyncio
from multiprocessing.pool import ThreadPool
import pytest
from tools import effect

async def later(call):
    return call()

WAYS = {
    "sync": lambda call: call(),
    "async": lambda call: asyncio.run(later(call)),
    "pool": lambda call: ThreadPool(1).apply(call),
}
CALLS = {
    "argument": lambda look, give: look(value=object()),
    "used-up": lambda look, give: look(value=(n for n in range(3))),
    "result": lambda look, give: give(object()),
    "generator": lambda look, give: give(n for n in range(3)),
    "inside": lambda look, give: give({"a": [object()]}),
}

@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.agent_cassette
def test_it(agent_run, way, call):
    look = agent_run.wrap(lambda value: effect("look"), name="look")
    def give(value):
        return agent_run.wrap(lambda: effect("give") or value, name="give")()
    try:
        WAYS[way](lambda: CALLS[call](look, give))
    except BaseException:
        pass
"""
WORDS = {
    "argument": "A call of tool 'look' cannot be recorded: its argument 'value' of type builtins:object is not JSON; "
    "leave it out: recorded_tool(ignore_arguments=('value',)).",
    "used-up": "A call of tool 'look' cannot be recorded: its argument 'value' of type builtins:generator is not JSON",
    "result": "The result of tool 'give' cannot be recorded: a value of type builtins:object does not survive JSON and "
    "back; annotate it with a type that pydantic can write and read.",
    "generator": "The result of tool 'give' cannot be recorded: a value of type builtins:generator does not survive",
    "inside": "The result of tool 'give' cannot be recorded: a value of type builtins:dict (in it, at ['a'][0], "
    "builtins:object) does not survive",
}


def test_what_a_tape_cannot_keep_fails_the_recording_even_when_the_agent_swallows_it(tools: Suite) -> None:
    tools.write(REFUSED)

    result = tools.run("--record-mode=once")

    result.assert_outcomes(failed=15)
    for name, words in WORDS.items():
        for way in ("sync", "async", "pool"):
            assert f"UnrecordableError: {words}" in failure(result, f"test_it[{name}-{way}]")
    assert tools.cassettes() == []
    assert effects(tools) == ["give"] * 9


@pytest.mark.parametrize(
    "source",
    [
        "def tool():\n    yield 1",
        "async def tool():\n    yield 1",
        "class Tool:\n    def __call__(self):\n        yield 1\ntool = Tool()",
        "import functools\ndef made(n):\n    yield n\ntool = functools.partial(made, 1)",
    ],
)
def test_a_generator_is_refused_when_it_is_decorated(source: str) -> None:
    from pytest_agentreplay import ConfigurationError, recorded_tool

    names: dict[str, Any] = {}
    exec(source, names)

    with pytest.raises(ConfigurationError, match="is a generator: a recorded tool returns one result; return a list"):
        recorded_tool(names["tool"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": 5}, "recorded_tool: name=5 must be a string"),
        ({"subagent": 1}, "recorded_tool: subagent=1 must be True or False"),
        ({"ignore_arguments": "db"}, "recorded_tool: ignore_arguments='db' must be a tuple of names"),
        ({"ignore_arguments": {"db": 1}}, "recorded_tool: ignore_arguments={'db': 1} must be a tuple of names"),
        ({"ignore_arguments": 5}, "recorded_tool: ignore_arguments=5 must be a tuple of names"),
        ({"ignore_arguments": (5,)}, "recorded_tool: ignore_arguments=(5,) must be a tuple of names"),
        (
            {"ignore_arguments": ("db", "bd")},
            "recorded_tool: ignore_arguments names 'bd', and look has no such argument",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused_when_a_tool_is_decorated(
    options: dict[str, Any], message: str
) -> None:
    from pytest_agentreplay import ConfigurationError, recorded_tool

    def look(db: object, city: str) -> str:
        raise AssertionError

    with pytest.raises(ConfigurationError) as caught:
        recorded_tool(**options)(look)

    assert str(caught.value) == message


def test_names_that_are_used_up_by_being_looked_at_are_refused() -> None:
    from pytest_agentreplay import ConfigurationError, recorded_tool

    with pytest.raises(ConfigurationError, match="must be a tuple of names"):
        recorded_tool(ignore_arguments=iter(["db"]))(lambda db: db)  # type: ignore[arg-type]


@pytest.mark.parametrize("tool", [lambda city, **rest: city, dict, lambda db, city: city])
def test_arguments_that_a_tool_may_take_can_be_left_out(tool: Any) -> None:
    from pytest_agentreplay import recorded_tool

    assert callable(recorded_tool(ignore_arguments=("db",))(tool))


def test_what_cannot_be_called_is_refused_when_it_is_decorated() -> None:
    from pytest_agentreplay import ConfigurationError, recorded_tool

    with pytest.raises(ConfigurationError, match="'look' cannot be called, so it is no tool to record"):
        recorded_tool(name="x")("look")  # type: ignore[arg-type]


def test_objects_that_are_called_are_tools_too(tools: Suite) -> None:
    tools.write(
        """
        import asyncio, functools
        import pytest
        from tools import effect

        class Look:
            def __call__(self, key):
                effect("look")
                return [key]

        class LookLater:
            async def __call__(self, key):
                effect("look later")
                return (key,)

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            assert agent_run.wrap(Look())("a") == ["a"]
            assert asyncio.run(agent_run.wrap(LookLater())("b")) == ("b",)
            assert agent_run.wrap(functools.partial(Look(), "c"), name="part")() == ["c"]
            assert agent_run.tools_called == ["Look", "LookLater", "part"]
        """
    )
    tools.record()

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert effects(tools) == ["look", "look later", "look"]


TYPED = """
import asyncio, dataclasses, datetime, enum
import pytest
from pydantic import BaseModel
from pytest_agentreplay import recorded_tool
from tools import effect

class Colour(enum.Enum):
    RED = "red"

@dataclasses.dataclass
class Part:
    data: bytes
    colours: tuple[Colour, ...]

class Order(BaseModel):
    id: int
    placed: datetime.datetime
    parts: list[Part] = []
    note: str | None = None

NOW = datetime.datetime(2025, 1, 2, 3, 4, 5, 678, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
PART = Part(b"\\xff\\x00", (Colour.RED,))

@recorded_tool
def order(id: int) -> Order:
    effect("order")
    return Order(id=id, placed=NOW, parts=[PART])

@recorded_tool
def parts() -> dict[str, Part]:
    effect("parts")
    return {"a": PART}

@recorded_tool
async def when() -> tuple[datetime.datetime, Colour, None]:
    effect("when")
    return NOW, Colour.RED, None

@recorded_tool
def untyped(kind):
    effect("untyped")
    return {"model": Order(id=1, placed=NOW), "bytes": b"\\xff", "none": None, "date": NOW.date()}[kind]

@pytest.mark.agent_cassette
def test_it():
    found = order(7)
    assert type(found) is Order and type(found.parts[0]) is Part
    assert found == Order(id=7, placed=NOW, parts=[PART])
    assert found.model_fields_set == {"id", "placed", "parts"}
    assert parts() == {"a": PART}
    assert asyncio.run(when()) == (NOW, Colour.RED, None)
    assert [untyped(kind) for kind in ("model", "bytes", "none", "date")] == [
        Order(id=1, placed=NOW), b"\\xff", None, NOW.date()
    ]
"""


def test_typed_results_come_back_as_what_they_were(tools: Suite) -> None:
    tools.write(TYPED)
    tools.record()
    done = effects(tools)

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert effects(tools) == done
    assert len(done) == 7


def test_a_result_whose_type_has_changed_since_stops_the_replay_even_when_the_agent_swallows_it(tools: Suite) -> None:
    test = """
    import pytest
    from pydantic import BaseModel
    from pytest_agentreplay import recorded_tool

    class Order(BaseModel):
        FIELD: int

    @recorded_tool
    def order() -> Order:
        return Order(FIELD=1)

    @pytest.mark.agent_cassette
    def test_it():
        try:
            order()
        except Exception:
            pass
    """
    tools.write(test.replace("FIELD", "id"))
    tools.record()
    tools.write(test.replace("FIELD", "number"))

    result = tools.run()

    result.assert_outcomes(failed=1)
    text = failure(result)
    assert "The recorded result of tool 'order' cannot be given: a recorded value does not fit" in text
    assert "Record it again: pytest test_it.py::test_it --record-mode=rewrite" in text


RAISING = """
import asyncio, json
import httpx
import pytest
from pytest_agentreplay import RecordedToolError, recorded_tool
from tools import effect

class TeapotError(Exception):
    def __init__(self, code, *, hint="none"):
        super().__init__(f"teapot {code}")
        self.code, self.hint = code, hint

class PickyError(Exception):
    def __init__(self, answer):
        super().__init__(answer.text)  # not what it is given back

class SilentError(ValueError):
    pass

def local_error():
    class LocalError(Exception):
        pass
    return LocalError("gone")

class Answer:
    text = "from an answer"

ERRORS = [
    KeyError("no order"),
    ValueError("bad", 3, None),
    OSError(2, "No such file", "/x"),
    TeapotError(418, hint="short and stout"),
    PickyError(Answer()),
    SilentError(),
    UnicodeDecodeError("utf-8", b"\\xff", 0, 1, "invalid start byte"),
    local_error(),
    ExceptionGroup("several", [ValueError("one")]),
]

@recorded_tool
def fail(index):
    effect(index)
    raise ERRORS[index]

@recorded_tool
async def fail_later(index):
    effect(index)
    raise ERRORS[index]

@pytest.mark.parametrize("index", range(len(ERRORS)))
@pytest.mark.agent_cassette
def test_it(index, record_property, agent_run):
    found = []
    for call in (lambda: fail(index), lambda: asyncio.run(fail_later(index))):
        with pytest.raises(Exception) as caught:
            call()
        error = caught.value
        said = [text.replace("'fail_later'", "'fail'") for text in (str(error), repr(error.args))]
        found.append([type(error).__name__, *said, sorted(vars(error))])
    assert found[0] == found[1]
    assert all(step.is_error for step in agent_run.tool_steps)
    record_property("raised", found[0])
"""


def test_an_exception_is_raised_again_as_the_same_class_or_as_one_that_says_which(tools: Suite) -> None:
    tools.write(RAISING)
    recorded = tools.record()
    done = effects(tools)

    replayed = tools.run()

    def raised(result: pytest.RunResult) -> list[Any]:
        return [said["raised"] for said in properties(result).values()]

    replayed.assert_outcomes(passed=9)
    assert effects(tools) == done
    pairs = list(zip(raised(recorded), raised(replayed), strict=True))
    assert [index for index, (was, now) in enumerate(pairs) if was == now] == [0, 1, 2, 3, 4, 5, 6]
    stand_ins = [(name, said.splitlines()) for name, said, *_ in (pairs[index][1] for index in (7, 8))]
    failed = "the tool 'fail' failed when it was recorded"
    assert [(name, lines[0]) for name, lines in stand_ins] == [
        ("RecordedToolError", f"{failed}: test_it:local_error.<locals>.LocalError: gone"),
        ("RecordedToolError", f"{failed}: builtins:ExceptionGroup: several (1 sub-exception)"),
    ]
    assert all("cannot be made again here. To have it raised in replay, " in lines[1] for _, lines in stand_ins)


def test_a_tool_that_timed_out_when_recorded_times_out_in_replay(tools: Suite) -> None:
    tools.write(
        """
        import asyncio, pytest
        from pytest_agentreplay import recorded_tool
        from tools import effect

        @recorded_tool
        async def slow():
            effect("slow")
            await asyncio.sleep(30)

        @recorded_tool
        async def fail():
            effect("fail")
            await asyncio.sleep(0.01)
            raise ValueError("first")

        async def together():
            async with asyncio.TaskGroup() as group:
                group.create_task(slow())
                group.create_task(fail())

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            with pytest.raises(TimeoutError):
                asyncio.run(asyncio.wait_for(slow(), 0.05))
            with pytest.raises(ExceptionGroup) as caught:
                asyncio.run(together())
            assert [str(error) for error in caught.value.exceptions] == ["first"]
            assert sorted(agent_run.tools_called) == ["fail", "slow", "slow"]
        """
    )
    tools.record()
    done = effects(tools)

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert effects(tools) == done == ["slow", "slow", "fail"]
    assert result.duration < 10  # type: ignore[attr-defined]


def test_a_tool_that_still_runs_when_its_test_ends_keeps_the_recording_unfinished(tools: Suite) -> None:
    tools.write(
        """
        import threading
        import pytest
        from tools import weather

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            started, go_on = threading.Event(), threading.Event()
            def wait():
                started.set()
                go_on.wait(5)
            weather("Oslo")
            threading.Thread(target=agent_run.wrap(wait), daemon=True).start()
            started.wait(5)
            pytest.go_on = go_on

        def test_next():
            pytest.go_on.set()
        """
    )

    result = tools.run_apart("--record-mode=once")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*unfinished recording kept: cassettes/test_it/test_it.partial.jsonl (0 exchanges, 1 tool call)*"]
    )
    assert tools.cassettes() == ["cassettes/test_it/test_it.partial.jsonl"]


def turns(*answers: dict[str, Any]) -> Any:
    """Return a provider that gives the nth answer in the nth turn of a conversation."""

    def respond(seen: Seen) -> Answer:
        said = sum(message["role"] == "assistant" for message in seen.json()["messages"])
        return answer_json(answers[said])

    return respond


# The least loop with tools: each call of a turn in a thread of its own, results in the order of the calls.
LOOP = """
import json, random, time
from concurrent.futures import ThreadPoolExecutor
from agent import CLIENT, URL, body

def loop(prompt, tools, *, workers=8, delay=0.0):
    messages = [{"role": "user", "content": prompt}]
    def run(call):
        time.sleep(random.random() * delay)
        function = call["function"]
        return {"role": "tool", "tool_call_id": call["id"],
                "content": json.dumps(tools[function["name"]](**json.loads(function["arguments"])))}
    while True:
        message = CLIENT.post(URL, json=body(*messages)).json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"], messages
        with ThreadPoolExecutor(workers) as pool:
            messages += pool.map(run, message["tool_calls"])
"""
PARALLEL = """
import random, time
import pytest
from loop import loop
from pytest_agentreplay import recorded_tool
from tools import effect

@recorded_tool
def weather(city):
    effect(f"weather {city}")
    time.sleep(random.random() * 0.03)
    return {"city": city, "degrees": len(city)}

@pytest.mark.agent_cassette
def test_it(agent_run, record_property):
    answer, messages = loop("How is it?", {"weather": weather}, delay=0.02)
    assert answer == "fine"
    record_property("messages", messages)
    record_property("ids", [step.tool_use_id for step in agent_run.tool_calls("weather")])
    record_property("chain", list(agent_run.hash_chain.values()))
"""
FOUR = [call(f"call_{number}", "weather", city=city) for number, city in enumerate(["Oslo", "Rome", "Lima", "Bonn"])]


def test_parallel_calls_keep_their_own_results_and_recording_them_again_changes_the_last_line_alone(
    tools: Suite, provider: Provider
) -> None:
    provider.respond = turns(completion(None, tool_calls=FOUR), completion("fine"))
    tools.pytester.makepyfile(loop=LOOP)
    tools.write(PARALLEL)
    files = []
    for _ in range(4):
        recorded = tools.run("--record-mode=rewrite")
        recorded.assert_outcomes(passed=1)
        files.append(tools.cassette().read_bytes().splitlines())
    provider.stop()
    done = effects(tools)

    replays = [tools.run() for _ in range(5)]

    for replay in replays:
        replay.assert_outcomes(passed=1)
        assert property_of(replay, "messages") == property_of(recorded, "messages")
        assert property_of(replay, "ids") == ["call_0", "call_1", "call_2", "call_3"]
        assert property_of(replay, "chain") == property_of(recorded, "chain")
    assert property_of(recorded, "ids") == ["call_0", "call_1", "call_2", "call_3"]
    assert len({tuple(lines[:-1]) for lines in files}) == 1
    assert len({lines[-1] for lines in files}) == 4
    assert effects(tools) == done


def test_parallel_calls_that_no_model_asked_for_stand_in_one_order(tools: Suite) -> None:
    tools.write(
        """
        import random, time
        from concurrent.futures import ThreadPoolExecutor
        import pytest
        from pytest_agentreplay import recorded_tool

        @recorded_tool
        def weather(city):
            time.sleep(0.01 + random.random() * 0.03)
            return len(city)

        @pytest.mark.agent_cassette
        def test_it():
            cities = ["Oslo", "Rome", "Lima", "Bonn"]
            random.shuffle(cities)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(weather, cities))
        """
    )
    files = []
    for _ in range(4):
        tools.run("--record-mode=rewrite").assert_outcomes(passed=1)
        files.append(tools.cassette().read_bytes().splitlines()[:-1])

    assert files[0] == files[1] == files[2] == files[3]


def test_an_id_that_is_used_again_in_a_later_turn_is_a_new_call(tools: Suite, provider: Provider) -> None:
    once = completion(None, tool_calls=[call("call_1", "weather", city="Oslo")])
    provider.respond = turns(once, once, completion("fine"))
    tools.pytester.makepyfile(loop=LOOP)
    tools.write(
        """
        import pytest
        from loop import loop
        from tools import weather

        @pytest.mark.agent_cassette
        def test_it(agent_run, record_property):
            _, messages = loop("How is it?", {"weather": weather})
            steps = agent_run.tool_calls("weather")
            assert [step.tool_use_id for step in steps] == ["call_1", "call_1"]
            assert steps[0].result != steps[1].result
            assert [step.source for step in agent_run.tool_steps] == ["wrapped", "wrapped"]
            record_property("messages", messages)
        """
    )
    recorded = tools.record()
    provider.stop()

    replayed = tools.run()

    replayed.assert_outcomes(passed=1)
    assert property_of(replayed, "messages") == property_of(recorded, "messages")
    first, second = tool_lines(tools)
    assert (first["tool_use_id"], second["tool_use_id"]) == ("call_1", "call_1")
    assert second["id"] == first["id"] + ".2"


def test_a_call_belongs_to_the_turn_that_asked_for_it_also_where_the_agent_changes_its_arguments(
    tools: Suite, provider: Provider
) -> None:
    asked = [call("call_a", "weather", city="Oslo"), call("call_b", "weather", city="Rome")]
    provider.respond = turns(completion(None, tool_calls=asked), completion("fine"))
    tools.pytester.makepyfile(loop=LOOP)
    tools.write(
        """
        import pytest
        from loop import loop

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            def weather(city, user):
                return city + user
            recorded = agent_run.wrap(weather)
            loop("How is it?", {"weather": lambda city: recorded(city, user="me")})
            assert [step.tool_use_id for step in agent_run.tool_steps] == ["call_a", "call_b"]
        """
    )
    tools.record()

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert [line["tool_use_id"] for line in tool_lines(tools)] == ["call_a", "call_b"]


INSIDE = """
from concurrent.futures import ThreadPoolExecutor
import pytest
from agent import ask, get
from pytest_agentreplay import recorded_tool
from tools import effect

@recorded_tool
def rate(currency):
    effect("rate")
    return get(f"/rates/{currency}")

@recorded_tool
def price(item):
    effect("price")
    inner = rate("EUR")
    with ThreadPoolExecutor(1) as pool:
        prices = pool.submit(get, "/prices").result()
    return [item, inner, prices, ask(f"what is a {item}?")]

@pytest.mark.agent_cassette
def test_it(agent_run):
    assert get("/prices") == "/prices BEFORE"
    assert price("teapot") == ["teapot", "/rates/EUR", "/prices INSIDE", "echo: what is a teapot?"]
    assert get("/prices") == "/prices AFTER"
"""


def test_what_is_requested_inside_a_tool_is_on_the_tape_under_it_and_neither_served_nor_unplayed_with_it(
    tools: Suite, provider: Provider
) -> None:
    asked_for = iter(["BEFORE", "INSIDE", "AFTER"])

    def respond(seen: Seen) -> Answer:
        if seen.path == "/prices":
            return Answer(headers=(("content-type", "text/plain"),), body=f"/prices {next(asked_for)}".encode())
        return echo(seen)

    provider.respond = respond
    tools.write(INSIDE)
    tools.record()
    provider.stop()

    result = tools.run()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["agent cassettes: 1 replayed (2 requests, 1 tool call)"])
    assert effects(tools) == ["price", "rate"]
    lines = tools.lines()
    price, rate = sorted(tool_lines(tools), key=lambda line: line["name"])
    parents = {(line["request"]["url"].rpartition("/")[2], line.get("parent")) for line in lines if "request" in line}
    assert "parent" not in price
    assert rate["parent"] == price["id"]
    assert parents == {
        ("prices", None),
        ("prices", price["id"]),
        ("EUR", rate["id"]),
        ("completions", price["id"]),
    }


def test_what_was_requested_inside_a_tool_answers_nobody_outside(tools: Suite, provider: Provider) -> None:
    tools.write(
        """
        import pytest
        from agent import get
        from pytest_agentreplay import recorded_tool

        @recorded_tool
        def price():
            return get("/prices")

        @pytest.mark.agent_cassette
        def test_it():
            if FIRST:
                get("/prices")
            price()
        """.replace("FIRST", "False")
    )
    tools.record()
    source = (tools.path / "test_it.py").read_text()
    tools.write(source.replace("if False", "if True"))

    result = tools.run()

    result.assert_outcomes(failed=1)
    assert "ReplayDivergenceError" in failure(result)


SECRETIVE = """
import pytest
from pytest_agentreplay import recorded_tool

KEY = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"

class LeakyError(Exception):
    pass

@recorded_tool
def log_in(password, account):
    return {"token": KEY, "account": account, "said": f"the key is {KEY}"}

@recorded_tool
def fail(key):
    raise LeakyError(f"no such key: {key}")

@pytest.mark.agent_cassette
def test_it(agent_run):
    found = log_in(password="correct horse", account="me")
    assert found["account"] == "me"
    assert (KEY in found["said"]) == agent_run.is_recording
    with pytest.raises(LeakyError, match="no such key: "):
        fail(KEY)
"""


def test_secrets_in_arguments_results_and_errors_are_not_written(tools: Suite) -> None:
    tools.write(SECRETIVE)
    tools.record()

    result = tools.run()

    result.assert_outcomes(passed=1)
    written = tools.cassette().read_text()
    assert "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" not in written
    assert "correct horse" not in written
    log_in, fail = tool_lines(tools)
    assert log_in["arguments"]["account"] == "me"
    assert "[redacted:" in log_in["result"]["said"]
    assert fail["error"]["type"] == "test_it:LeakyError"
    assert "[redacted:" in fail["error"]["message"]


def test_ids_and_places_of_tools_do_not_show_chance_in_the_file(tools: Suite) -> None:
    tools.write(
        """
        import pytest
        from tools import weather

        @pytest.mark.agent_cassette
        def test_it():
            weather("Oslo")
        """
    )
    tools.record()

    [line] = tool_lines(tools)

    assert set(line) == {"kind", "hash", "id", "name", "arguments", "result", "sum"}
    assert line["hash"].startswith("a1:")
    assert line["hash"][3:].startswith(line["id"])


def test_a_tool_called_by_a_thread_that_outlives_its_test_is_refused(tools: Suite) -> None:
    tools.write(
        """
        import threading
        import pytest
        from tools import weather

        errors, go_on = [], threading.Event()

        def later():
            go_on.wait(5)
            try:
                weather("Oslo")
            except BaseException as error:
                errors.append(str(error))

        @pytest.mark.agent_cassette
        def test_one():
            pytest.thread = threading.Thread(target=later)
            pytest.thread.start()

        @pytest.mark.agent_cassette
        def test_two():
            go_on.set()
            pytest.thread.join()
            assert "A call of the tool 'weather' was made by test_it.py::test_one, which is over" in errors[0]
            assert "It was not made. Wait for threads" in errors[0]
        """
    )

    result = tools.run("--record-mode=once")

    result.assert_outcomes(passed=2)
    assert effects(tools) == []
