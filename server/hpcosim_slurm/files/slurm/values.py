"""Values of a scenario from texts of a configuration."""

from __future__ import annotations

from hpcosim_slurm.files.errors import FieldError
from hpcosim_slurm.files.units import MB_BY_UNIT, UNLIMITED, duration_s, memory_of, shown

YES, NO = frozenset(("yes", "true", "up", "1", "on")), frozenset(("no", "false", "0", "off"))


def whole(text: str) -> int:
    """Return a whole number.

    Raises:
        FieldError: the text is none.
    """
    if not text.isdecimal() or len(text) > 18:
        raise FieldError(f"expected a whole number, got {shown(text)}")
    return int(text)


def optional_whole(text: str) -> int | None:
    """Return a whole number; None: empty, `-1`, `UNLIMITED` or the like."""
    return None if not text or text.lower() in UNLIMITED else whole(text)


def truth(text: str) -> bool:
    """Return whether a text such as `YES` is true.

    Raises:
        FieldError: the text is neither true nor false.
    """
    if text.lower() in YES | NO:
        return text.lower() in YES
    raise FieldError(f"expected YES or NO, got {shown(text)}")


def names(text: str) -> list[str]:
    """Return the names of a comma-separated list; `ALL` is no limit and gives none."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    return [] if found and found[0].upper() == "ALL" else found


def optional_seconds(text: str) -> float | None:
    """Return a duration in seconds; None: empty or unlimited."""
    return duration_s(text) if text else None


def minutes(text: str) -> float:
    """Return minutes as seconds."""
    return whole(text) * 60.0


def tres_weights(text: str) -> dict[str, float]:
    """Return weights such as `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`; that of memory is for each MB."""
    found: dict[str, float] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = entry.partition("=")
        name = _tres_name(name)
        unit = value[-1:].upper() if value[-1:].upper() in MB_BY_UNIT else ""
        try:
            weight = float(value[:-1] if unit else value)
        except ValueError:
            raise FieldError(
                f"expected weights such as CPU=1.0,Mem=0.25G, got {shown(entry)}"
            ) from None
        if not equals or not weight >= 0 or weight == float("inf"):
            raise FieldError(f"expected weights such as CPU=1.0,Mem=0.25G, got {shown(entry)}")
        found[name] = weight / (MB_BY_UNIT[unit] if name == "mem" else 1.0)
    return found


def tres_limits(text: str) -> dict[str, float]:
    """Return limits such as `cpu=100,mem=1T,gres/gpu=8`; memory in MB; -1 is no limit.

    Raises:
        FieldError: an entry has no value, or one that is no amount.
    """
    found: dict[str, float] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = entry.partition("=")
        if value == "-1":
            continue
        if not value:
            raise FieldError(f"expected limits such as cpu=100,mem=1T, got {shown(entry)}")
        name = _tres_name(name)
        memory = memory_of(value)
        plain = name != "mem" and not value[-1:].isalpha()
        found[name] = float(value) if plain else memory.mb * (1.0 if name == "mem" else 2.0**20)
    return found


def _tres_name(name: str) -> str:
    head, slash, rest = name.strip().partition("/")
    return f"{head.lower()}{slash}{rest}"
