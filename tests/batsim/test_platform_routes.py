"""Routes of zones and clusters whose rules SimGrid 3.32 defines, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.tasks import task_of
from hpcosim_batsim.inputs.workload_model import Parallel
from hpcosim_batsim.network import Network

SHORTEST = ["Floyd", "Dijkstra", "DijkstraCache"]


def network_of(folder: Path, zone: str) -> Network:
    """Return the network of a platform with this zone."""
    path = folder / "platform.xml"
    master = '<zone id="m" routing="None"><host id="master_host" speed="1Gf"/></zone>'
    text = f'<zone id="root" routing="Full">{zone}{master}</zone>'
    path.write_text(f'<?xml version="1.0"?>\n<platform version="4.1">{text}</platform>')
    return read_platform(path).network


def graph(routing: str, members: str, *routes: str) -> str:
    """Return a zone of hosts with one letter and routes such as `ab:xy` over the links x and y."""
    hosts = "".join(f'<host id="{name}" speed="1Gf"/>' for name in members)
    names = sorted({link for route in routes for link in route.partition(":")[2]})
    links = "".join(f'<link id="{name}" bandwidth="1MBps" latency="1s"/>' for name in names)
    parts = "".join(
        f'<route src="{route[0]}" dst="{route[1]}">'
        + "".join(f'<link_ctn id="{link}"/>' for link in route[3:])
        + "</route>"
        for route in routes
    )
    return f'<zone id="z" routing="{routing}">{hosts}{links}{parts}</zone>'


def names(network: Network, source: str, target: str) -> list[str]:
    """Return the names of the links of a route."""
    return [network.links[link].name for link in network.route(source, target)]


@pytest.mark.parametrize("routing", SHORTEST)
def test_path_with_the_fewest_links_is_taken(tmp_path: Path, routing: str) -> None:
    """Two routes with three links in all are shorter than the route with four."""
    zone = graph(routing, "abc", "ac:pqrs", "ab:x", "bc:yz")
    network = network_of(tmp_path, zone)
    assert names(network, "a", "c") == ["x", "y", "z"]
    assert names(network, "c", "a") == ["z", "y", "x"]
    assert names(network, "a", "b") == ["x"]
    assert names(network, "a", "a") == ["__loopback__"]


def test_floyd_takes_the_first_member_of_several_shortest_paths(tmp_path: Path) -> None:
    """The order of the hosts in the file decides, not that of the routes."""
    routes = ("ay:p", "yd:q", "ax:r", "xd:s")
    assert names(network_of(tmp_path, graph("Floyd", "axyd", *routes)), "a", "d") == ["r", "s"]
    assert names(network_of(tmp_path, graph("Floyd", "ayxd", *routes)), "a", "d") == ["p", "q"]


@pytest.mark.parametrize("routing", ["Dijkstra", "DijkstraCache"])
def test_dijkstra_takes_the_first_route_of_several_shortest_paths(
    tmp_path: Path, routing: str
) -> None:
    """The order of the routes in the file decides, not that of the hosts."""
    first = graph(routing, "axyd", "ay:p", "yd:q", "ax:r", "xd:s")
    assert names(network_of(tmp_path, first), "a", "d") == ["p", "q"]
    second = graph(routing, "axyd", "ax:r", "xd:s", "ay:p", "yd:q")
    assert names(network_of(tmp_path, second), "a", "d") == ["r", "s"]


@pytest.mark.parametrize("routing", SHORTEST)
def test_members_without_a_path_are_an_error(tmp_path: Path, routing: str) -> None:
    """The error names the zone and both members."""
    network = network_of(tmp_path, graph(routing, "abcd", "ab:x", "cd:y"))
    with pytest.raises(ValueError, match="zone z has no route from a to d"):
        network.route("a", "d")


FILE = Path(__file__).parent / "simgrid_routes.json"
CLUSTERS = json.loads(FILE.read_text())["clusters"]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=[cluster["name"] for cluster in CLUSTERS])
def test_routes_of_clusters_are_those_of_simgrid(tmp_path: Path, cluster: dict[str, Any]) -> None:
    """All routes between hosts, see `simgrid_routes.json`; links are numbered by first use."""
    network = network_of(tmp_path, cluster["zone"])
    number: dict[int, int] = {}
    for source, expected in zip(cluster["hosts"], cluster["routes"], strict=True):
        routes = []
        for target in cluster["hosts"]:
            links = network.route(source, target)
            numbers = [str(number.setdefault(link, len(number))) for link in links]
            routes.append(",".join(numbers) or "-")
        assert " ".join(routes) == expected, source


def cluster_of(hosts: int, topology: str, parameters: str, more: str = "") -> str:
    """Return a cluster with the hosts `h0`, `h1` and so on."""
    return (
        f'<cluster id="c" prefix="h" suffix="" radical="0-{hosts - 1}" speed="1Gf" bw="100MBps" '
        f'lat="1ms" topology="{topology}" topo_parameters="{parameters}"{more}/>'
    )


def test_torus_routes_one_dimension_after_the_other(tmp_path: Path) -> None:
    """From (0, 0) to (3, 1) of a torus of 4 x 2 hosts: one step back, then one step forward."""
    network = network_of(tmp_path, cluster_of(8, "TORUS", "4,2"))
    assert names(network, "h0", "h7") == ["c_link_from_3_to_0_DOWN", "c_link_from_3_to_7_UP"]


def test_fat_tree_routes_by_the_target(tmp_path: Path) -> None:
    """Hosts 0 and 1 share a switch; the way to host 3 goes over the second upper switch."""
    network = network_of(tmp_path, cluster_of(4, "FAT_TREE", "2;2,2;1,2;1,1"))
    assert names(network, "h0", "h1") == [
        "c_link_from_0_0_by_0_0_UP",
        "c_link_from_0_1_by_0_0_DOWN",
    ]
    assert names(network, "h0", "h3") == [
        "c_link_from_0_0_by_0_0_UP",
        "c_link_from_1_0_by_1_0_UP",
        "c_link_from_1_1_by_1_0_DOWN",
        "c_link_from_0_3_by_0_0_DOWN",
    ]


def test_dragonfly_routes_over_the_blade_of_the_group(tmp_path: Path) -> None:
    """Blade 1 of group 0 has the link to group 1, which has three strands."""
    network = network_of(tmp_path, cluster_of(4, "DRAGONFLY", "2,3;1,1;2,1;1"))
    links = ["c_local_link_0_UP", "c_green_link_0_0_0_0_0_1_UP", "c_blue_link_0_0_1_1_0_0_UP"]
    route = network.route("h0", "h2")
    assert [network.links[link].name for link in route] == [*links, "c_local_link_2_DOWN"]
    assert [network.links[link].bytes_per_s / 100e6 for link in route] == [1, 1, 3, 1]


@pytest.mark.parametrize(
    ("topology", "parameters", "wrong"),
    [
        ("TORUS", "2,x", "topo_parameters: expected numbers separated by commas, got '2,x'"),
        ("TORUS", "2,0", "topo_parameters: expected numbers above 0, got '2,0'"),
        ("TORUS", "3,2", "topo_parameters: has 6 hosts, but the radical has 4"),
        ("FAT_TREE", "2;2,2", "topo_parameters: expected 'LEVELS;CHILDREN;PARENTS;CABLES'"),
        ("FAT_TREE", "2;4;1,1;1,1", "topo_parameters: expected 2 numbers above 0, got '4'"),
        ("FAT_TREE", "1;4;1000;1000", "topo_parameters: has 4000000 cables; expected at most"),
        ("DRAGONFLY", "2,1;2;1,1;1", "topo_parameters: expected 2 numbers above 0, got '2'"),
    ],
)
def test_bad_topology_is_named(tmp_path: Path, topology: str, parameters: str, wrong: str) -> None:
    """The error names the line and what was expected."""
    with pytest.raises(InputError, match="line 2") as caught:
        network_of(tmp_path, cluster_of(4, topology, parameters))
    assert wrong in str(caught.value)


def test_dragonfly_without_a_blade_for_each_group_has_no_route(tmp_path: Path) -> None:
    """SimGrid reads beyond its routers there."""
    network = network_of(tmp_path, cluster_of(4, "DRAGONFLY", "2,1;1,1;1,1;2"))
    assert len(network.route("h0", "h1")) == 2
    with pytest.raises(ValueError, match="2 groups of a dragonfly need 2 blades, got 1"):
        network.route("h0", "h2")


def test_floyd_with_too_many_members_is_noted(tmp_path: Path) -> None:
    """Only jobs that communicate need its routes."""
    hosts = "".join(f'<host id="h{number}" speed="1Gf"/>' for number in range(2001))
    network = network_of(tmp_path, f'<zone id="z" routing="Floyd">{hosts}</zone>')
    assert network.unsupported == "line 2: a zone with the routing Floyd and over 2000 members"


def three_zones(routing: str, leaves: str) -> str:
    """Return zones 1, 2 and 3 in a row, with a path in zone 2 from `p` to `q`."""
    inner = "".join(
        f'<zone id="z{number}" routing="Full"><host id="{host}" speed="1Gf"/></zone>'
        for number, host in ((1, "a"), (3, "c"))
    )
    second = (
        '<zone id="z2" routing="Full"><host id="p" speed="1Gf"/><host id="q" speed="1Gf"/>'
        '<link id="pq" bandwidth="1MBps"/><route src="p" dst="q"><link_ctn id="pq"/></route></zone>'
    )
    links = '<link id="first" bandwidth="1MBps"/><link id="second" bandwidth="1MBps"/>'
    routes = (
        '<zoneRoute src="z1" dst="z2" gw_src="a" gw_dst="p"><link_ctn id="first"/></zoneRoute>'
        f'<zoneRoute src="z2" dst="z3" gw_src="{leaves}" gw_dst="c"><link_ctn id="second"/>'
        "</zoneRoute>"
    )
    return f'<zone id="z" routing="{routing}">{inner}{second}{links}{routes}</zone>'


def test_path_of_floyd_crosses_zones_between_their_gateways(tmp_path: Path) -> None:
    """It enters the second zone at `p` and leaves it at `q`."""
    network = network_of(tmp_path, three_zones("Floyd", "q"))
    assert names(network, "a", "c") == ["first", "pq", "second"]
    assert names(network, "c", "a") == ["second", "pq", "first"]


def test_path_of_dijkstra_leaves_a_zone_where_it_has_entered_it(tmp_path: Path) -> None:
    """SimGrid 3.32 fails where the gateways differ."""
    network = network_of(tmp_path, three_zones("Dijkstra", "p"))
    assert names(network, "a", "c") == ["first", "second"]
    network = network_of(tmp_path, three_zones("Dijkstra", "q"))
    with pytest.raises(ValueError, match="zone z: a path enters and leaves a zone at p and q"):
        network.route("a", "c")


@pytest.mark.parametrize("routing", SHORTEST)
def test_message_takes_the_time_of_its_path(tmp_path: Path, routing: str) -> None:
    """3 s of latency, and 2 MB over links of 1 MB/s: TCP needs 3 s * 2 MB * 2 / 4 MiB, more."""
    network_of(tmp_path, graph(routing, "abc", "ac:pqrs", "ab:x", "bc:yz"))
    platform = read_platform(tmp_path / "platform.xml")
    message = Parallel(name="c", cpu_flop=(0.0, 0.0), com_bytes=(0.0, 2e6, 0.0, 0.0))
    task = task_of(message, {}, platform, [0, 2], [0, 0, 0])
    assert task.duration_s == pytest.approx(3.0 + 3.0 * 2e6 * 2 / 4194304)
