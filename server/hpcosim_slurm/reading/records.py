"""Records of `scontrol --oneliner show`: each begins with a field, such as `NodeName=`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from hpcosim_slurm.errors import ReadingError

Fields = dict[str, str]
Record = TypeVar("Record")

_FIELD = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=(\S*)")
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra)=")


def read_records(
    text: str, what: str, first: str, read: Callable[[Fields, str], Record]
) -> dict[str, Record]:
    """Return the records of an output, by the value of their first field.

    Args:
        text: the output.
        what: what is shown, such as `node`.
        first: name of the first field of each record.
        read: returns a record of its fields and its text. The fields are without the texts of
            operators, which come last.

    Raises:
        ReadingError: a field is missing, or has another form than expected.
    """
    found: dict[str, Record] = {}
    for record in re.split(rf"(?m)^(?={first}=)", text):
        if not record.startswith(f"{first}="):
            continue
        free = _FREE_TEXT.search(record)
        fields = dict(_FIELD.findall(record[: free.start()] if free else record))
        try:
            found[fields[first]] = read(fields, record)
        except (KeyError, ReadingError) as error:
            why = f"the field {error} is missing" if isinstance(error, KeyError) else error
            raise ReadingError(f"scontrol show {what}: {fields[first]}: {why}") from None
    return found
