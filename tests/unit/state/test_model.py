"""A store does what the plainest model of it does: a dict of everything, kept for every version of every branch."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pytest_agentreplay.errors import (
    AlreadyExistsError,
    BranchInUseError,
    BranchNotFoundError,
    HistoryUnavailableError,
)
from pytest_agentreplay.state import Store, Version, View, open_store

KEYS = ("a", "b", "plan")
NAMES = ("x", "y", "z", "w")
PATHS = ("$", "$.a", "$.a.b", "$.c[0]")
VALUES: tuple[Any, ...] = ("v", b"v", 1, None, {"a": {"b": 1}, "c": [1]}, [])


@dataclass
class Model:
    """One branch: its whole state at every version from 1, and who committed each."""

    name: str
    parent: str | None
    states: list[dict[str, Any]] = field(default_factory=lambda: [{"kv": {}, "json": {}, "events": []}] * 2)
    committed_by: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def head(self) -> int:
        return len(self.states)

    def commit(self, change: Any) -> int:
        state = copy.deepcopy(self.states[-1])
        change(state)
        self.states.append(state)
        self.committed_by.append(id(self))
        return self.head

    def forked(self, name: str, version: int) -> Model:
        return Model(name, self.name, self.states[:version], self.committed_by[:version])


def set_plainly(document: Any, path: str, value: Any) -> Any:
    """Return a document with a value at one of ``PATHS``; ``TypeError`` where it has no place."""
    if path == "$":
        return copy.deepcopy(value)
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise TypeError
    if path == "$.a":
        document["a"] = copy.deepcopy(value)
    elif path == "$.a.b":
        if not isinstance(document.setdefault("a", {}), dict):
            raise TypeError
        document["a"]["b"] = copy.deepcopy(value)
    else:
        if not isinstance(document.setdefault("c", []), list):
            raise TypeError
        document["c"][:1] = [copy.deepcopy(value)]
    return document


class StoreAgainstModel(RuleBasedStateMachine):
    """Forks at head and at versions, writes, deletes, reads at every version, branch deletes, names used again."""

    steps = 0

    @initialize()
    def begin(self) -> None:
        self.store: Store = open_store(":memory:")
        self.branches: dict[str, Model] = {"default": Model("default", None)}
        self.views: dict[str, View] = {"default": self.store.at()}
        self.dead: list[View] = []
        self.deleted: list[Model] = []  # kept, so that no other takes its identity
        self.versions: list[tuple[Version, int]] = []  # with the identity of the model that committed it

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.verify()
            self.store.close()

    def pick(self, data: st.DataObject) -> tuple[Model, View]:
        name = data.draw(st.sampled_from(sorted(self.branches)))
        return self.branches[name], self.views[name]

    def committed(self, model: Model, version: Version | None, expected: int) -> None:
        assert version == expected
        assert isinstance(version, Version)
        assert version.branch == model.name
        self.versions.append((version, id(model)))

    @rule(data=st.data(), key=st.sampled_from(KEYS), value=st.sampled_from(VALUES))
    def put(self, data: st.DataObject, key: str, value: Any) -> None:
        model, view = self.pick(data)
        self.committed(model, view.kv.put(key, value), model.commit(lambda state: state["kv"].update({key: value})))

    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def delete(self, data: st.DataObject, key: str) -> None:
        model, view = self.pick(data)
        version = view.kv.delete(key)
        if key not in model.states[-1]["kv"]:
            assert version is None
        else:
            self.committed(model, version, model.commit(lambda state: state["kv"].pop(key)))

    @rule(data=st.data(), key=st.sampled_from(KEYS), path=st.sampled_from(PATHS), value=st.sampled_from(VALUES))
    def set_json(self, data: st.DataObject, key: str, path: str, value: Any) -> None:
        model, view = self.pick(data)
        if isinstance(value, bytes):
            return
        try:
            expected = set_plainly(copy.deepcopy(model.states[-1]["json"].get(key)), path, value)
        except TypeError:
            with pytest.raises(Exception, match="has no place for"):
                view.json.set(key, path, value)
            return
        if path != "$" and key in model.states[-1]["json"] and model.states[-1]["json"][key] is None:
            return  # the plain model does not tell a document that is null from none
        version = view.json.set(key, path, value)
        self.committed(model, version, model.commit(lambda state: state["json"].update({key: expected})))

    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def delete_json(self, data: st.DataObject, key: str) -> None:
        model, view = self.pick(data)
        version = view.json.delete(key)
        if key not in model.states[-1]["json"]:
            assert version is None
        else:
            self.committed(model, version, model.commit(lambda state: state["json"].pop(key)))

    @rule(data=st.data(), kind=st.sampled_from(["tool", "model"]), value=st.sampled_from([None, 1, {"a": []}]))
    def append(self, data: st.DataObject, kind: str, value: Any) -> None:
        model, view = self.pick(data)
        event = view.events.append(kind, value)
        assert event.sequence == len(model.states[-1]["events"])
        self.committed(model, event.version, model.commit(lambda state: state["events"].append((kind, value))))

    @rule(data=st.data(), name=st.sampled_from(NAMES), at_head=st.booleans())
    def fork(self, data: st.DataObject, name: str, at_head: bool) -> None:
        model, _ = self.pick(data)
        version = None if at_head else data.draw(st.integers(1, model.head))
        if name in self.branches:
            with pytest.raises(AlreadyExistsError):
                self.store.branches.fork(model.name, name, version=version)
            return
        made = self.store.branches.fork(model.name, name, version=version)
        self.branches[name] = model.forked(name, version or model.head)
        self.views[name] = self.store.at(name)
        assert (made.head, made.parent) == (version or model.head, model.name)

    @rule(data=st.data())
    def delete_branch(self, data: st.DataObject) -> None:
        model, view = self.pick(data)
        is_needed = model.name == "default" or any(other.parent == model.name for other in self.branches.values())
        if is_needed:
            with pytest.raises(BranchInUseError):
                self.store.branches.delete(model.name)
            return
        self.store.branches.delete(model.name)
        self.deleted.append(self.branches.pop(model.name))
        del self.views[model.name]
        self.dead.append(view)

    @rule(data=st.data())
    def read_every_version(self, data: st.DataObject) -> None:
        model, view = self.pick(data)
        for version, state in enumerate(model.states, start=1):
            self.compare(view, state, as_of=version)
        for beyond in (0, model.head + 1):
            with pytest.raises(HistoryUnavailableError):
                view.kv.get("a", as_of=beyond)

    @rule(data=st.data())
    def read_as_of_a_version_of_any_branch(self, data: st.DataObject) -> None:
        model, view = self.pick(data)
        for version, committer in self.versions[-12:]:
            if int(version) <= model.head and model.committed_by[version - 1] == committer:
                self.compare(view, model.states[version - 1], as_of=version)
            else:
                with pytest.raises(HistoryUnavailableError):
                    view.kv.get("a", as_of=version)

    @rule()
    def read_what_was_deleted(self) -> None:
        for view in self.dead[-3:]:
            with pytest.raises(BranchNotFoundError):
                view.kv.get("a")

    @invariant()
    def heads_agree(self) -> None:
        type(self).steps += 1
        if not hasattr(self, "store"):
            return
        for name, model in self.branches.items():
            assert self.views[name].head == model.head
            self.compare(self.views[name], model.states[-1], as_of=None)

    def compare(self, view: View, state: dict[str, Any], *, as_of: Any) -> None:
        assert {key: view.kv.get(key, as_of=as_of) for key in view.kv.keys(as_of=as_of)} == state["kv"]
        assert {key: view.json.get(key, as_of=as_of) for key in view.json.keys(as_of=as_of)} == state["json"]
        assert [(event.type, event.payload) for event in view.events.list(as_of=as_of)] == state["events"]
        assert view.kv.get("absent", as_of=as_of) is None
        if as_of is None:
            assert view.events.verify_chain()


def run(*, examples: int, steps: int) -> int:
    machine = type("Machine", (StoreAgainstModel,), {"steps": 0})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return machine.steps  # type: ignore[attr-defined,no-any-return]


def test_a_store_agrees_with_the_model_in_two_thousand_steps() -> None:
    assert run(examples=60, steps=50) >= 2_000


@pytest.mark.slow
def test_a_store_agrees_with_the_model_in_fifty_thousand_steps() -> None:
    assert run(examples=1_200, steps=60) >= 50_000
