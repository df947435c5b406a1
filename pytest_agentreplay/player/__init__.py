"""The one object that decides, for each live request: serve, record or diverge."""

from pytest_agentreplay.player.lanes import Lane, Lanes
from pytest_agentreplay.player.observer import Observer, Unobserved
from pytest_agentreplay.player.past import in_order_of_tape
from pytest_agentreplay.player.permissions import Approve, Decision, Policy
from pytest_agentreplay.player.player import Beginning, Player
from pytest_agentreplay.player.recorded import Recorded, recorded_for
from pytest_agentreplay.player.tape import MemoryTape, Tape
from pytest_agentreplay.player.tickets import Serve, ServeTool, Ticket, ToolTicket

__all__ = [
    "Approve",
    "Beginning",
    "Decision",
    "Lane",
    "Lanes",
    "MemoryTape",
    "Observer",
    "Player",
    "Policy",
    "Recorded",
    "Serve",
    "ServeTool",
    "Tape",
    "Ticket",
    "ToolTicket",
    "Unobserved",
    "in_order_of_tape",
    "recorded_for",
]
