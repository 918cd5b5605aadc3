"""Regions that report to `cyclometer stat -m`, which runs the program from outside."""

from __future__ import annotations

import functools
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, cast

from perf_monitor._native import marker_attached, marker_begin, marker_end

_Function = TypeVar("_Function", bound=Callable[..., Any])


class marker:
    """Marks a region of this thread, as a context manager or a decorator.

        with perf_monitor.marker("solve"):
            solve()

    Run by `cyclometer stat -m python program.py`, each region is counted with the events that were asked for there. Run in
    another way, the program does nothing but call two functions that return at once.

    Regions nest, and those of one name add up. A region has what the interpreter executes for it, too.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a region is a str, and not {type(name).__name__}")
        self.name = name

    def __enter__(self) -> marker:
        marker_begin(self.name)
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        marker_end(self.name)

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast(_Function, marked)

    @staticmethod
    def attached() -> bool:
        """Whether `cyclometer stat -m` runs this program: whether regions are counted."""
        return marker_attached()
