"""What can go wrong: one exception for each kind of error."""

from __future__ import annotations

__all__ = [
    "ArchUnsupported",
    "ConstraintConflict",
    "CounterBusy",
    "EventUnsupported",
    "HardwareLimit",
    "InvalidInput",
    "IoFailed",
    "KernelPatchNeeded",
    "NoSuchTarget",
    "NoUserAccess",
    "NotCountedError",
    "OsFailed",
    "PerfMonitorError",
    "PermissionDenied",
    "StateLost",
    "UnknownEvent",
]


class PerfMonitorError(Exception):
    """Anything that goes wrong here.

    `number` is the number of its kind, which never changes and is that of the C interface below zero; `remedy` says what
    can be done about it, and may be empty.
    """

    number = 0

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message} ({self.remedy})" if self.remedy else message


class ArchUnsupported(PerfMonitorError):
    """No source of counts supports the architecture."""

    number = 1


class NoUserAccess(PerfMonitorError):
    """Counters cannot be read from user space here."""

    number = 2


class CounterBusy(PerfMonitorError):
    """Another user holds the counter."""

    number = 3


class EventUnsupported(PerfMonitorError):
    """The event cannot be counted on this machine."""

    number = 4


class KernelPatchNeeded(PerfMonitorError):
    """Only a changed kernel gives access."""

    number = 5


class PermissionDenied(PerfMonitorError):
    """The operating system does not permit it."""

    number = 6


class HardwareLimit(PerfMonitorError):
    """More was asked for than the hardware has counters for."""

    number = 7


class UnknownEvent(PerfMonitorError, LookupError):
    """No event has that name; the remedy has the nearest ones."""

    number = 8


class InvalidInput(PerfMonitorError, ValueError):
    """An argument or a setting makes no sense, or not now."""

    number = 9


class ConstraintConflict(PerfMonitorError):
    """Events that can never be counted at the same time."""

    number = 10


class StateLost(PerfMonitorError):
    """It was being counted, and something took it away."""

    number = 11


class NoSuchTarget(PerfMonitorError, LookupError):
    """A process or CPU does not exist."""

    number = 12


class IoFailed(PerfMonitorError):
    """A file could not be read or written."""

    number = 15


class OsFailed(PerfMonitorError):
    """The operating system failed in another way."""

    number = 17


class NotCountedError(PerfMonitorError, ValueError):
    """A number was asked of something that was not counted."""

    number = 100


_KINDS: dict[int, type[PerfMonitorError]] = {
    kind.number: kind
    for kind in PerfMonitorError.__subclasses__()
}


def of_kind(number: int, message: str, remedy: str) -> PerfMonitorError:
    """The exception of a kind of error, by its number."""
    error = _KINDS.get(number, PerfMonitorError)(message, remedy)
    error.number = number
    return error
