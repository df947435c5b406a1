"""A request that is in flight when its test is over, in a suite that runs in this process.

It is hung up when the session is over: nothing is left open that another test would be blamed for.
"""

from __future__ import annotations

import pytest

# A statement of a test that imports nothing.
LEAVE_ONE_IN_FLIGHT = "__import__('agent').leave_one_in_flight()"

_CONFTEST = """
import agent

LEFT = []


def leave_one_in_flight():
    request = agent.CLIENT.build_request("POST", agent.URL, json=agent.body("in flight"))
    LEFT.append(agent.CLIENT.send(request, stream=True))


agent.leave_one_in_flight = leave_one_in_flight


def pytest_sessionfinish():
    for response in LEFT:
        response.close()
"""


def let_one_be_in_flight(pytester: pytest.Pytester) -> None:
    """Write the conftest that :data:`LEAVE_ONE_IN_FLIGHT` needs."""
    pytester.makeconftest(_CONFTEST)
