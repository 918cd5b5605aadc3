"""Numbers that say what they are, and what stands where there is none."""

from __future__ import annotations

import re
from typing import Any, Optional, Union

from perf_monitor.engine import Record
from perf_monitor.errors import NotCountedError

__all__ = ["Counted", "NotCounted", "Value", "of_record"]

#: Verdicts of numbers, best first.
_VERDICTS = ("exact", "scaled", "partial")
#: The part of a format specification that says how wide a text is.
_WIDTH = re.compile(r"(?:.(?=[<>=^]))?([<>=^])?[-+ ]?z?#?0?(\d+)?")


class Value(float):
    """A number that was counted: a float that knows what it is.

    `verdict` is `exact`, `scaled` (an estimate: the event shared its counter) or `partial` (of some cores or modes only, or
    of more than was asked for); `reason` says why it is not exact. `half_width` is how far the truth may be from it; `None`
    where nobody can tell. `provenance` says who counted, `scope` what it covers, `raw` is the count before what measuring
    adds was taken off.

    Quotients, sums, differences and products have the worst verdict of both.
    """

    name: str
    verdict: str
    raw: Optional[int]
    half_width: Optional[float]
    unit: str
    provenance: Optional[str]
    source: Optional[str]
    scope: str
    reason: Optional[str]
    notes: list[str]

    def __new__(
        cls,
        number: float,
        *,
        name: str,
        verdict: str = "exact",
        raw: Optional[int] = None,
        half_width: Optional[float] = None,
        unit: str = "",
        provenance: Optional[str] = None,
        source: Optional[str] = None,
        scope: str = "thread",
        reason: Optional[str] = None,
        notes: Optional[list[str]] = None,
    ) -> Value:
        made = super().__new__(cls, number)
        made.name, made.verdict, made.raw, made.half_width = name, verdict, raw, half_width
        made.unit, made.provenance, made.source, made.scope = unit, provenance, source, scope
        made.reason, made.notes = reason, list(notes or ())
        return made

    @property
    def is_exact(self) -> bool:
        """Whether it was counted for the whole time."""
        return self.verdict == "exact"

    def _with(self, other: Any, sign: str, number: Optional[float]) -> Counted:
        name = f"{self.name} {sign} {getattr(other, 'name', other)}"
        if number is None:
            return NotCounted(name, f"{getattr(other, 'name', other)} is 0")
        verdict = max(self.verdict, getattr(other, "verdict", "exact"), key=_VERDICTS.index)
        reasons = [reason for reason in (self.reason, getattr(other, "reason", None)) if reason]
        sources = {self.provenance, getattr(other, "provenance", self.provenance)}
        return Value(
            number,
            name=name,
            verdict=verdict,
            provenance=" and ".join(sorted(source for source in sources if source)) or None,
            scope=self.scope,
            reason="; ".join(dict.fromkeys(reasons)) or None,
        )

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, (int, float)):
            return self._with(other, "/", float(self) / float(other) if other else None)
        return NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._with(other, "+", float(self) + float(other)) if isinstance(other, (int, float)) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self._with(other, "-", float(self) - float(other)) if isinstance(other, (int, float)) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        return self._with(other, "*", float(self) * float(other)) if isinstance(other, (int, float)) else NotImplemented

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Any:
        return self._plain(other) - self if isinstance(other, (int, float)) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return self._plain(other) / self if isinstance(other, (int, float)) else NotImplemented

    def _plain(self, number: float) -> Value:
        """A number that was not counted by anybody, to calculate with."""
        return Value(number, name=f"{number}", scope=self.scope)

    def __str__(self) -> str:
        number = float(self)
        text = f"{int(number)}" if number.is_integer() else f"{number:.6g}"
        if self.half_width:
            text += f" ± {self.half_width:.3g}"
        if self.unit:
            text += f" {self.unit}"
        return text if self.is_exact else f"{text} ({self.verdict}: {self.reason})"

    def __format__(self, spec: str) -> str:
        return float(self).__format__(spec) if spec else str(self)

    def __repr__(self) -> str:
        return f"<{self.name}: {self}>"

    def __reduce__(self) -> Any:
        return _value, (float(self), dict(self.__dict__))

    def to_dict(self) -> dict[str, Any]:
        """Everything that is known of it, as plain values."""
        return {"value": float(self), **self.__dict__}


def _value(number: float, fields: dict[str, Any]) -> Value:
    return Value(number, **fields)


class NotCounted:
    """Stands where there is no number: `reason` says why, and `verdict` whether it was `not counted`, `not supported` or `lost`.

    It goes through arithmetic, prints as "not counted" in every format, and raises `NotCountedError` where a number is
    needed: it is never zero.
    """

    verdict: str
    provenance = None

    def __init__(self, name: str, reason: str, verdict: str = "not counted") -> None:
        self.name, self.reason, self.verdict = name, reason, verdict

    @property
    def is_exact(self) -> bool:
        """Never."""
        return False

    def _same(self, other: Any) -> NotCounted:
        """What comes of calculating with something that was not counted."""
        if isinstance(other, (int, float, NotCounted)):
            return self
        return NotImplemented  # type: ignore[no-any-return]

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _same
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _same

    def __neg__(self) -> NotCounted:
        return self

    __pos__ = __abs__ = __neg__

    def __round__(self, digits: Optional[int] = None) -> NotCounted:
        return self

    def _no_number(self, *_: Any) -> Any:
        raise NotCountedError(f"{self.name} was not counted: {self.reason}")

    __float__ = __int__ = __index__ = __bool__ = _no_number
    __lt__ = __le__ = __gt__ = __ge__ = _no_number

    def __str__(self) -> str:
        return "not counted"

    def __format__(self, spec: str) -> str:
        found = _WIDTH.match(spec)
        align, width = found.groups() if found else (None, None)
        return format(str(self), f"{'>' if align in (None, '=') else align}{width}") if width else str(self)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.verdict} ({self.reason})>"

    def to_dict(self) -> dict[str, Any]:
        """Everything that is known of it, as plain values: there is no number among them."""
        return {"value": None, "name": self.name, "verdict": self.verdict, "reason": self.reason}


Counted = Union[Value, NotCounted]


def of_record(record: Record) -> Counted:
    """What an engine says of an event."""
    if record.number is None:
        return NotCounted(record.name, record.reason or "nobody can tell why", record.verdict)
    fields = record._asdict()
    del fields["event"], fields["number"]
    return Value(record.number, **fields)
