"""Who of a run's agents told whom what: its drawn steps as the lines of a sequence diagram.

An agent is a conversation.  One that was opened inside a tool is called by whoever called the tool, and what it did
stands between the tool's call and its return.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_agentreplay.projections.drawn import Drawn
from pytest_agentreplay.records import ToolStep

__all__ = ["Line", "Talk", "read_talk"]

USER = "user"


@dataclass(frozen=True)
class Line:
    """One arrow: from a participant to another, or to itself, with its text; ``is_return`` where it brings a result."""

    speaker: str
    hearer: str
    text: str
    is_return: bool = False


@dataclass(frozen=True)
class Talk:
    """A run's agents, the shown name of each by its id in the diagram, and the lines in order."""

    agents: Mapping[str, str]
    lines: Sequence[Line]


@dataclass(frozen=True)
class _Call:
    """What opens conversations: who calls, the name of the tool (``None``: the user), and what is told and returned."""

    caller: str
    tool: str | None
    text: str
    answer: str


def read_talk(steps: Iterable[Drawn]) -> Talk:
    """Return the talk that drawn steps, in the order of their tape, add up to."""
    cast = _Cast(list(steps))
    lines = list(cast.conversations(None, _Call(USER, None, text="start", answer="done")))
    return Talk(agents=cast.agents, lines=lines)


class _Cast:
    """The agents of a run, named as they come up."""

    def __init__(self, steps: Sequence[Drawn]) -> None:
        self.agents: dict[str, str] = {}  # shown names by id
        self._of_lane: dict[str, str] = {}  # ids by lane
        self._names: Counter[str] = Counter()
        self._inside: dict[str | None, list[Drawn]] = {}
        tools = {drawn.step.id for drawn in steps if isinstance(drawn.step, ToolStep)}
        for drawn in steps:
            self._inside.setdefault(drawn.step.parent if drawn.step.parent in tools else None, []).append(drawn)

    def conversations(self, inside: str | None, call: _Call) -> Iterator[Line]:
        """Yield what was done inside a tool, or on the user's behalf: each conversation from its call to its answer."""
        by_agent: dict[str, list[Drawn]] = {}
        for drawn in self._inside.get(inside, ()):
            by_agent.setdefault(self._agent(drawn, call), []).append(drawn)
        for agent, steps in by_agent.items():
            lines = [line for drawn in steps for line in self._told(drawn, agent)]
            if agent == call.caller:
                yield from lines
            else:
                yield Line(call.caller, agent, call.text)
                yield from lines
                yield Line(agent, call.caller, call.answer, is_return=True)

    def _told(self, drawn: Drawn, agent: str) -> Iterator[Line]:
        step = drawn.step
        if not isinstance(step, ToolStep) or step.id not in self._inside:
            yield Line(agent, agent, drawn.label)
            return
        call = _Call(agent, step.name, text=drawn.name, answer=drawn.label)
        lines = list(self.conversations(step.id, call))
        if all(self._agent(inner, call) == agent for inner in self._inside[step.id]):
            yield Line(agent, agent, drawn.label)  # it called nobody itself
        yield from lines

    def _agent(self, drawn: Drawn, call: _Call) -> str:
        """Return the id of the agent that took a step; a step of no conversation was taken by who called."""
        lane = drawn.step.lane
        if not lane and call.caller != USER:
            return call.caller
        if lane not in self._of_lane:
            agent = self._of_lane[lane] = f"a{len(self.agents)}"
            self.agents[agent] = self._name(lane.removeprefix("@") if lane.startswith("@") else call.tool or "agent")
        return self._of_lane[lane]

    def _name(self, name: str) -> str:
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name} {self._names[name]}"
