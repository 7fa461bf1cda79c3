"""Reservations and licences, as `scontrol --oneliner` prints them."""

from __future__ import annotations

from hpcosim_slurm.errors import ReadingError
from hpcosim_slurm.reading.records import Fields, read_records
from hpcosim_slurm.reading.values import nodes_of, number_of, text_of, time_of
from hpcosim_slurm.state import LiveReservation

RESERVATIONS = ("scontrol", "--oneliner", "--all", "show", "reservation")
LICENSES = ("scontrol", "--oneliner", "show", "licenses")


def parse_reservations(text: str) -> dict[str, LiveReservation]:
    """Return the reservations of the output of `RESERVATIONS`, by name.

    Raises:
        ReadingError: the text has another form.
    """
    return read_records(text, "reservation", "ReservationName", _reservation)


def parse_licenses(text: str) -> dict[str, int]:
    """Return how many licences there are of each name, of the output of `LICENSES`.

    Raises:
        ReadingError: the text has another form.
    """
    return read_records(text, "licenses", "LicenseName", lambda row, _: number_of(row["Total"]))


def _reservation(row: Fields, _: str) -> LiveReservation:
    start_s, end_s = time_of(row["StartTime"]), time_of(row["EndTime"])
    if start_s is None or end_s is None:
        raise ReadingError("expected a begin and an end")
    groups = _names(row.get("Groups", ""))
    return LiveReservation(
        name=row["ReservationName"],
        nodes=nodes_of(row["Nodes"]),
        start_s=start_s,
        end_s=end_s,
        is_active=row["State"] == "ACTIVE",
        users=() if groups else _names(row.get("Users", "")),
        accounts=() if groups else _names(row.get("Accounts", "")),
        flags=tuple(sorted(_names(row["Flags"]))),
    )


def _names(value: str) -> tuple[str, ...]:
    return tuple(filter(None, text_of(value).split(",")))
