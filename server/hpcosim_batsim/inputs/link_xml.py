"""Reader of the links in SimGrid platform files."""

from __future__ import annotations

from msgspec import Struct

from hpcosim_batsim.inputs.xml_tree import BANDWIDTHS, TIMES, Element
from hpcosim_batsim.network.model import Link, Links

SPLIT = ("SPLITDUPLEX", "FULLDUPLEX")
_POLICIES = ("SHARED", "FATPIPE", *SPLIT)


class Ends(Struct, frozen=True):
    """The index of a link in each direction: two links if its directions do not share it."""

    up: int
    down: int

    @property
    def is_split(self) -> bool:
        """Whether the directions are two links."""
        return self.up != self.down


class LinkTable:
    """The links of a platform.

    Attributes:
        links: the links.
        unsupported: why a link is not supported; "": all are.
    """

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.unsupported = ""
        self._by_name: dict[str, Ends] = {}

    def add(self, link: Link, *, split: bool = False) -> Ends:
        """Add a link.

        Args:
            link: the link.
            split: whether each direction has the whole bandwidth.
        """
        number = len(self.links)
        if not split:
            self.links.append(link)
            ends = Ends(number, number)
        else:
            names = f"{link.name}_UP", f"{link.name}_DOWN"
            self.links += [Link(name, link.bytes_per_s, link.latency_s) for name in names]
            ends = Ends(number, number + 1)
            for place, name in enumerate(names, start=number):
                self._by_name[name] = Ends(place, place)
        self._by_name[link.name] = ends
        return ends

    def read(self, element: Element) -> Ends:
        """Add the link of an element `link` or `backbone`.

        Raises:
            InputError: the link is invalid; names the line.
        """
        name = element.required("id")
        if name in self._by_name:
            raise element.error(f"a second link has the name {name}; names must be unique")
        policy = element.attributes.get("sharing_policy", "SHARED")
        if policy not in _POLICIES:
            self.unsupported = f"line {element.line}: a link with sharing_policy {policy}"
        for changing in ("bandwidth_file", "latency_file", "state_file"):
            if changing in element.attributes:
                self.unsupported = f"line {element.line}: a link with a {changing}"
        bytes_per_s = bandwidth(element, "bandwidth")
        link = Link(name, bytes_per_s, latency(element, "latency"), policy == "FATPIPE")
        return self.add(link, split=policy in SPLIT)

    def find(self, element: Element, name: str) -> Ends:
        """Return a link by the name that an element contains.

        Raises:
            InputError: there is no such link; names the line.
        """
        ends = self._by_name.get(name)
        if ends is None:
            raise element.error(f"there is no link {name}")
        return ends

    def route(self, element: Element) -> tuple[Links, Links]:
        """Return the links of a route, and those of the route back.

        Raises:
            InputError: a link is unknown or has no direction; names the line.
        """
        there, back = [], []
        for part in element.all("link_ctn"):
            ends = self.find(part, part.required("id"))
            direction = part.attributes.get("direction", "NONE")
            if ends.is_split and direction not in ("UP", "DOWN"):
                raise part.error(
                    f"direction: expected UP or DOWN for the split link {part.required('id')}"
                )
            down = direction == "DOWN"
            there.append(ends.down if down else ends.up)
            back.append(ends.up if down else ends.down)
        return tuple(there), tuple(reversed(back))


def bandwidth(element: Element, name: str) -> float:
    """Return the bandwidth in an attribute, bytes/s.

    Raises:
        InputError: there is none, or it is not above 0; names the line.
    """
    text = element.required(name)
    bytes_per_s = element.amount(name, text, BANDWIDTHS, "125MBps")
    if bytes_per_s <= 0:
        raise element.error(f"{name}: expected a bandwidth > 0, got {text!r}")
    return bytes_per_s


def latency(element: Element, name: str) -> float:
    """Return the latency in an attribute, s; default 0.

    Raises:
        InputError: it is not an amount of time; names the line.
    """
    return element.amount(name, element.attributes.get(name, "0s"), TIMES, "50us")
