"""The one object that decides, for each live request: serve, record or diverge."""

from pytest_agentreplay.player.lanes import Lane, Lanes
from pytest_agentreplay.player.player import Player, Serve, Ticket
from pytest_agentreplay.player.recorded import Recorded, recorded_for
from pytest_agentreplay.player.tape import MemoryTape, Tape

__all__ = ["Lane", "Lanes", "MemoryTape", "Player", "Recorded", "Serve", "Tape", "Ticket", "recorded_for"]
