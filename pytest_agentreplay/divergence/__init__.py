"""The first difference between a live run and its recording, as text a person can act on."""

from pytest_agentreplay.divergence.callsite import Place, find_call_site, find_places
from pytest_agentreplay.divergence.changes import (
    ABSENT,
    NO_MEANING,
    Change,
    Meaning,
    alike,
    find_changes,
    find_value_changes,
)
from pytest_agentreplay.divergence.report import (
    report_changed,
    report_missing,
    report_order,
    report_unplayed,
    show_moved,
    show_together,
)
from pytest_agentreplay.divergence.scene import Scene, Unfinished, Words

__all__ = [
    "ABSENT",
    "NO_MEANING",
    "Change",
    "Meaning",
    "Place",
    "Scene",
    "Unfinished",
    "Words",
    "alike",
    "find_call_site",
    "find_changes",
    "find_places",
    "find_value_changes",
    "report_changed",
    "report_missing",
    "report_order",
    "report_unplayed",
    "show_moved",
    "show_together",
]
