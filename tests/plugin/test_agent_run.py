"""The fixture that a test asks about its own run."""

from __future__ import annotations

from tests.support.suite import Suite, failure


def test_on_an_unmarked_test_it_is_refused_by_name(suite: Suite) -> None:
    suite.write("def test_it(agent_run): pass")

    result = suite.run()

    result.assert_outcomes(errors=1)
    words = "test_it.py::test_it uses agent_run without @pytest.mark.agent_cassette; put the marker on it"
    assert failure(result) == f"ConfigurationError: {words}"


def test_it_counts_turns_and_tokens_alike_when_recorded_and_when_replayed(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask, get

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            assert agent_run.turns == 0
            ask("one")
            get("/price-list")
            ask("two")
            assert agent_run.turns == 2
            assert (agent_run.usage.input_tokens, agent_run.usage.output_tokens) == (20, 10)
            assert agent_run.usage.reasoning_tokens is None
        """
    )

    recorded = suite.record()
    replayed = suite.run()

    recorded.assert_outcomes(passed=1)
    replayed.assert_outcomes(passed=1)


def test_its_hash_chain_is_the_same_in_a_replay(suite: Suite) -> None:
    suite.write(
        """
        import json, pytest
        from agent import ask, user

        @pytest.mark.agent_cassette
        def test_it(agent_run, record_property):
            answer = ask("one")
            ask("one", {"role": "assistant", "content": answer}, "two")
            ask("another conversation")
            record_property("chain", {lane: list(hashes) for lane, hashes in agent_run.hash_chain.items()})
        """
    )

    recorded = suite.record()
    replayed = suite.run()

    chains = [
        dict(run.reprec.getreports("pytest_runtest_logreport")[1].user_properties) for run in (recorded, replayed)
    ]
    assert chains[0] == chains[1]
    assert sorted(len(hashes) for hashes in chains[0]["chain"].values()) == [1, 2]
    assert all(found.startswith("a1:") for hashes in chains[0]["chain"].values() for found in hashes)
