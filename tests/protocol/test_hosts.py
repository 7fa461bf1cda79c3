"""Host lists and the names of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import NodeGroup, Platform, Processor, ProtocolError
from hpcosim_protocol.hosts import NodeNames, compress, expand, to_ranges

PROCESSORS = (Processor(cores=4),)


def platform(*names: str) -> Platform:
    """Return a platform with a group of two nodes for each host list."""
    return Platform(nodes=tuple(NodeGroup(2, PROCESSORS, names=each) for each in names))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("b1", ["b1"]),
        ("n[1-3],b1", ["n1", "n2", "n3", "b1"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("n[1,3-4]", ["n1", "n3", "n4"]),
        ("r[1-2]n[1-2].site", ["r1n1.site", "r1n2.site", "r2n1.site", "r2n2.site"]),
        (" login ", ["login"]),
        ("[0-1,7]", ["0", "1", "7"]),
    ],
)
def test_host_list_expands_to_names(text: str, names: list[str]) -> None:
    """A host list has the names that Slurm's manual gives it."""
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a name"),
        ("a,,b", "got ',b'"),
        ("a,", "expected a name"),
        ("n[1-", r"got '\[1-'"),
        ("n[4-1]", "a range that ascends, got '4-1'"),
        ("n[a]", "got 'a'"),
        ("n[]", "got ''"),
        ("n1 n2", "expected `,`, got ' n2'"),
        ("n]", "got ']'"),
        ("n[0-999999999999999999]", "at most 1000000 names"),
        ("n[0-999][0-999][0-999]", "at most 1000000 names"),
        ("n[0-999999],m1", "at most 1000000 names"),
        ("n[" + "1," * 50_000, r"got 'n\[1,"),
    ],
)
def test_text_that_is_no_host_list_is_quoted(text: str, message: str) -> None:
    """A text that is no host list is rejected with the part that is wrong."""
    with pytest.raises(ProtocolError, match=message) as caught:
        expand(text)
    assert len(str(caught.value)) < 300


NAMES = st.lists(
    st.from_regex(r"\A[a-c]{0,2}[0-9]{1,3}(\.x)?\Z") | st.sampled_from(["login", "n-2b", "a1b2"])
)


@given(NAMES)
def test_compressed_names_expand_to_the_same_names(names: list[str]) -> None:
    """Compressing keeps all names and their order."""
    text = compress(names)
    assert (expand(text) if names else []) == names


def test_neighbours_share_a_bracket() -> None:
    """Names that differ in their last number are compressed to ranges."""
    assert compress(["n08", "n09", "n10", "n12", "b1", "m3", "m1"]) == "n[08-10,12],b1,m[3,1]"


def test_node_names_follow_the_groups() -> None:
    """The nodes have the names of their groups, and without names their numbers."""
    names = NodeNames(platform("b[1-2]", "", "n[1-2]"))

    assert [names.name_of(number) for number in range(6)] == ["b1", "b2", "2", "3", "n1", "n2"]
    assert names.number_of("n2") == 5
    assert names.ranges("n2,b[1-2],n1") == ((0, 1), (4, 5))
    assert names.ranges("ALL") == ((0, 5),)
    assert names.text([5, 4, 0]) == "n[2,1],b1"


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (("n[1-3]",), r"nodes\[0\].names: expected a host list of 2 names, got 'n\[1-3\]' with 3"),
        (("n[1-2]", "n[2-3]"), "nodes 1 and 2 have the same name, 'n2'"),
        (("n[1-2]", "n["), r"got 'n\['"),
    ],
)
def test_wrong_names_of_nodes_are_rejected(groups: tuple[str, ...], message: str) -> None:
    """Names that do not fit the platform are rejected."""
    with pytest.raises(ProtocolError, match=message):
        NodeNames(platform(*groups))


def test_unknown_node_is_rejected_with_the_known_ones() -> None:
    """An unknown node is quoted, and so are the nodes that exist."""
    names = NodeNames(platform("n[1-2]"))

    with pytest.raises(ProtocolError, match=r"unknown node 'n3'; the nodes are 'n\[1-2\]'"):
        names.ranges("n[1-3]")
    with pytest.raises(ProtocolError, match="below 2, got 2"):
        names.name_of(2)


def test_ranges_are_ascending_and_few() -> None:
    """Ranges of numbers merge neighbours and repeated numbers."""
    assert to_ranges([7, 1, 2, 2, 3, 9, 8]) == ((1, 3), (7, 9))
    assert to_ranges([]) == ()
