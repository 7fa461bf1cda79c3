"""The configuration of a Slurm cluster as a scenario."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_schedulers.slurm.settings import SiteSettings, parse_site
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.accounts import read_accounts
from hpcosim_slurm.files.slurm.convert import SlurmOptions, import_slurm
from support.slurm_site import DUMP, NODES_CONF, SLURM_CONF, write_site


def imported(tmp_path: Path, **options: Any) -> tuple[Platform, SiteSettings, ImportReport]:
    """Return the platform, the settings and the report of the site."""
    conf = tmp_path / "slurm.conf"
    if not conf.exists():
        write_site(tmp_path)
    own = {"sacctmgr": tmp_path / "dump.cfg", "qos": tmp_path / "qos.psv", "force": True}
    out = tmp_path / "cluster.yaml"
    report = import_slurm(conf, out, SlurmOptions(**{**own, **options}))
    scenario = load_scenario(out)
    return scenario.platform, parse_site(scenario.scheduler.settings), report


def test_nodes_become_groups(tmp_path: Path) -> None:
    """CPUs, memory, features, weights, and devices with the types of gres.conf."""
    platform, _, report = imported(tmp_path)
    groups = [
        (each.names, each.count, each.cores, each.memory_mb, each.features, each.gres, each.weight)
        for each in platform.nodes
    ]
    assert groups == [
        ("c[01-03]", 3, 16, 64000, ("ib", "skylake"), {}, 10),
        ("c04", 1, 16, 64000, (), {}, 1),
        ("g1", 1, 32, 64000, ("ib", "dgx"), {"gpu:a100": 4}, 1),
        ("g2", 1, 32, 64000, ("ib", "dgx"), {"gpu:h100": 4}, 1),
    ]
    assert [len(each.processors) for each in platform.nodes] == [2, 2, 1, 1]
    assert platform.consumable == ("cores", "memory")
    assert platform.licenses == {"matlab": 10, "ansys": 4}
    assert report.count("dropped", "nodes in state FUTURE") == 1


def test_partitions_have_nodes_limits_and_defaults(tmp_path: Path) -> None:
    """A node set stands for its nodes, and a DEFAULT line for what later lines do not state."""
    platform, _, _ = imported(tmp_path)
    cpu, gpu = platform.partitions
    assert (cpu.name, cpu.nodes, cpu.default, cpu.max_time_s) == ("cpu", ((0, 3),), True, 172800)
    assert cpu.allow_accounts == ("physics", "biology")
    assert cpu.default_memory_per_core_mb == 2000
    assert (gpu.nodes, gpu.exclusive, gpu.max_nodes) == (((4, 5),), True, 2)
    assert (gpu.priority_tier, gpu.max_time_s, gpu.default_time_s) == (10, None, 3600)


def test_switches_are_those_of_the_topology(tmp_path: Path) -> None:
    """A switch connects nodes or switches."""
    platform, _, _ = imported(tmp_path)
    assert [(each.name, each.nodes, each.switches) for each in platform.switches] == [
        ("leaf1", ((0, 3),), ()),
        ("leaf2", ((4, 5),), ()),
        ("top", (), ("leaf1", "leaf2")),
    ]


def test_switches_have_no_effect_without_their_plugin(tmp_path: Path) -> None:
    """Slurm reads topology.conf with TopologyPlugin=topology/tree only."""
    conf = write_site(tmp_path)
    assert not imported(tmp_path)[1].selection.ignore_topology
    conf.write_text(conf.read_text().replace("TopologyPlugin=topology/tree", ""))
    assert imported(tmp_path)[1].selection.ignore_topology


def test_blocks_of_the_topology_are_not_modelled(tmp_path: Path) -> None:
    """They are listed with their lines, as are other settings."""
    write_site(tmp_path)
    (tmp_path / "topology.conf").write_text("BlockName=b1 Nodes=c[01-04]\nBlockSizes=4\n")
    platform, _, report = imported(tmp_path)
    assert platform.switches == ()
    assert {"BlockName", "BlockSizes"} <= set(report.entries["not modelled"])


def test_a_drained_node_is_in_the_failures(tmp_path: Path) -> None:
    """It is drained from second 0 on."""
    imported(tmp_path)
    failures = load_scenario(tmp_path / "cluster.yaml").failures
    assert failures is not None
    assert [(each.at_s, each.nodes, each.kind) for each in failures.events] == [(0, "c04", "drain")]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('DownNodes=c[01-02] State=DRAIN Reason="bad DIMM"', "drain"),
        ("DownNodes=c[01-02]", "fail"),
        ("DownNodes=c[01-02] State=UNKNOWN", None),
    ],
)
def test_down_nodes_are_in_the_failures(tmp_path: Path, line: str, kind: str | None) -> None:
    """Without a state they are down; nothing of the line is listed as not modelled."""
    conf = write_site(tmp_path)
    conf.write_text(f"{conf.read_text()}{line}\n")
    _, _, report = imported(tmp_path)
    failures = load_scenario(tmp_path / "cluster.yaml").failures
    assert failures is not None
    found = [each.kind for each in failures.events if each.nodes == "c[01-02]"]
    assert found == ([kind] if kind else [])
    listed = {*report.entries["not modelled"], *report.entries["no effect"]}
    assert not listed & {"DownNodes", "State", "Reason"}


def test_priorities_and_parameters_of_the_scheduler(tmp_path: Path) -> None:
    """Units are in the names: bf_window is in minutes, sched_min_interval in microseconds."""
    _, site, _ = imported(tmp_path)
    assert site.priority.decay_half_life_s == 7 * 86400
    assert (site.priority.weight_age, site.priority.weight_fair_share) == (1000, 100000)
    assert site.priority.weight_tres == {"cpu": 1000, "mem": 2, "gres/gpu": 5000}
    assert site.priority.flags == ("accrue_always",)
    assert (site.scheduler.bf_window_s, site.scheduler.bf_interval_s) == (172800, 60)
    assert site.scheduler.sched_min_interval_s == 2.0
    assert site.scheduler.bf_continue
    assert (site.preemption.type, site.preemption.mode) == ("qos", "requeue")
    assert site.enforce == ("limits", "qos")
    assert site.enforce_part_limits == "any"
    assert site.partitions["gpu"].billing_weights == {"cpu": 1, "mem": 0.5 / 1024, "gres/gpu": 8}


def test_accounts_and_users_of_sacctmgr(tmp_path: Path) -> None:
    """A user may be in several accounts, and have an association for one partition."""
    _, site, _ = imported(tmp_path)
    assert site.accounts["physics"].shares == 60
    assert site.accounts["physics"].grp_tres == {"cpu": 64, "mem": 2**20}
    assert site.accounts["biology"].qos == ("normal", "long")
    assert site.accounts["theory"].parent == "physics"
    ada = site.accounts["physics"].users["ada"]
    assert (ada.shares, ada.max_jobs, ada.max_wall_s, ada.default) == (5, 20, 86400, True)
    assert not site.accounts["theory"].users["ada"].default
    bob = site.accounts["theory"].users["bob"].partitions["gpu"]
    assert (bob.shares, bob.max_submit_jobs) == ("parent", 5)


def test_changes_of_inherited_qos_are_carried_out(tmp_path: Path) -> None:
    """`+NAME` adds to the list of the account above, `-NAME` takes away from it."""
    path = tmp_path / "dump.cfg"
    path.write_text(
        "Cluster - 'c':Fairshare=1:QOS='normal,long'\nParent - 'root'\n"
        "Account - 'a':QOS='-long'\nParent - 'a'\n"
        "User - 'ann':QOS='+high'\nUser - 'bob':QOS='high'\nUser - 'eve':Fairshare=1\n"
    )
    account = read_accounts(path, ImportReport())["a"]
    assert account["qos"] == ["normal"]
    assert [account["users"][name].get("qos") for name in ("ann", "bob", "eve")] == [
        ["normal", "high"],
        ["high"],
        None,
    ]


def test_qos_have_priorities_and_limits(tmp_path: Path) -> None:
    """Flags that are not modelled are listed."""
    _, site, report = imported(tmp_path)
    long = site.qos["long"]
    assert (long.priority, long.grace_time_s, long.preempt) == (10, 120, ("normal",))
    assert (long.usage_factor, long.max_jobs_per_user, long.max_wall_s) == (2, 4, 14 * 86400)
    assert long.flags == ("deny_on_limit",)
    assert report.count("not modelled", "QOS Flags=Relative") == 1


def test_qos_that_are_only_named_have_no_limits(tmp_path: Path) -> None:
    """The scenario is valid without the file of QOS."""
    _, site, report = imported(tmp_path, qos=None)
    assert site.qos["long"].priority == 0
    what = "QOS long is not described (see --qos): no limits"
    assert report.entries["guessed"][what].places == ["dump.cfg"]


def test_qos_of_partitions_are_looked_up(tmp_path: Path) -> None:
    """The report names the file that lacks it and the line of the partition."""
    conf = write_site(tmp_path)
    conf.write_text(conf.read_text().replace("MaxNodes=2", "MaxNodes=2 QOS=lang AllowQos=long"))
    _, site, report = imported(tmp_path)
    what = "QOS lang is not described in qos.psv: no limits"
    assert report.entries["guessed"][what].places == ["slurm.conf:26"]
    assert not any("long" in each for each in report.entries["guessed"])
    assert "lang" not in site.qos


def test_every_setting_that_is_not_modelled_is_listed(tmp_path: Path) -> None:
    """In the report with its line, and in comments of the scenario."""
    _, _, report = imported(tmp_path)
    listed = report.entries["not modelled"]
    assert list(listed) == [
        "SchedulerParameters: bf_licenses",
        "QOS Flags=Relative",
        "PartitionName ... CpuBind",
        "SelectTypeParameters: CR_ONE_TASK_PER_CORE",
    ]
    assert listed["SchedulerParameters: bf_licenses"].places == ["slurm.conf:16"]
    text = (tmp_path / "cluster.yaml").read_text()
    assert "\n# 1 PartitionName ... CpuBind (slurm.conf:2" in text
    assert "SlurmctldHost" in report.entries["no effect"]


def test_each_key_of_the_file_is_modelled_or_listed(tmp_path: Path) -> None:
    """An invented key is listed wherever it is."""
    write_site(tmp_path)
    for name in ("slurm.conf", "nodes.conf"):
        text = (tmp_path / name).read_text()
        changed = text.replace("Name=c0", "Name=c0", 1).replace(" State=UNKNOWN", " Zzz=1")
        (tmp_path / name).write_text(changed.replace("GresTypes=gpu", "Yyy=1"))
    _, _, report = imported(tmp_path)
    assert {"NodeName ... Zzz", "Yyy"} <= set(report.entries["not modelled"])


def test_names_are_those_of_the_jobs(tmp_path: Path) -> None:
    """With the file of names, users and accounts are replaced as those of the jobs."""
    names = tmp_path / "names.json"
    names.write_text('{"user": {"ada": "user1"}, "account": {"theory": "account1"}}')
    _, site, _ = imported(tmp_path, anonymize=True, names=names)
    assert "user1" in site.accounts["account1"].users
    text = (tmp_path / "cluster.yaml").read_text()
    assert not any(word in text for word in ("ada", "bob", "theory", "physics", "uni:"))


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("slurm.conf", "Include nodes.conf", "Include /etc/x.conf", "slurm.conf:23: the included"),
        ("slurm.conf", "Include nodes.conf", "", "slurm.conf: there is no NodeName line"),
        ("slurm.conf", "ClusterName=aurora", "just words", "slurm.conf:2: expected `Key=Value`"),
        ("slurm.conf", "7-0", "a week", "slurm.conf:12: expected `Key=Value` pairs, got 'week'"),
        ("slurm.conf", "7-0", "week", "PriorityDecayHalfLife: expected a duration such as"),
        ("slurm.conf", "Nodes=c[01-04]", "Nodes=c[01-09]", "there is no node or node set 'c05'"),
        ("slurm.conf", "bf_interval=60", "bf_interval=x", "bf_interval: expected a whole number"),
        ("nodes.conf", "NodeName=c04", "NodeName=c03", "nodes.conf:4: a second node has the name"),
        ("nodes.conf", "c[01-03]", "c[03-01]", "nodes.conf:3: expected a host list"),
        ("nodes.conf", "c[01-03]", "c[1-99999999]", "a host list of at most 1000000 names"),
        ("nodes.conf", "CPUs=16", "CPUs=-1", "expected a whole number, got '-1'"),
        ("dump.cfg", "Parent - 'theory'", "Parent - 'thory'", "dump.cfg:10: there is no account"),
        ("dump.cfg", "User - 'bob'", "Uesr - 'bob'", "dump.cfg:12: expected a line such as `User"),
        ("dump.cfg", "MaxJobs=20", "MaxJobs=many", "dump.cfg:9: ada: maxjobs: expected a whole"),
        ("slurm.conf", "Include", "DownNodes=c9\nInclude", "DownNodes: there is no node 'c9'"),
        (
            "gres.conf",
            "NodeName=g1 Name",
            "SwitchName=g1 Name",
            "gres.conf:2: expected a gres.conf",
        ),
        ("topology.conf", "SwitchName=leaf1", "Name=gpu", "topology.conf:2: expected a topology"),
        ("dump.cfg", ":MaxJobs=20", ":MaxJ", "dump.cfg:9: ada: expected `Key=Value`, got 'MaxJ'"),
        ("dump.cfg", "'normal,long'", "'normal,lo", 'dump.cfg:6: the quote of "\'normal,lo" does'),
        ("dump.cfg", "cpu=64,mem=1T", "cpu=", "dump.cfg:5: physics: grptres: expected limits"),
        ("dump.cfg", "MaxSubmitJobs=5\n", "MaxSubmitJobs=", "dump.cfg:12: the file ends within"),
        ("qos.psv", "|cpu=1\n", "\n", "qos.psv:3: expected 10 fields as in the first line, got 9"),
        ("qos.psv", "|cpu=1\n", "|cpu=1", "qos.psv:3: the file ends within this line"),
        ("qos.psv", "2.000000", "twice", "qos.psv:3: long: usagefactor: could not convert"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    """Nothing is written."""
    write_site(tmp_path)
    path = tmp_path / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError) as error:
        imported(tmp_path)
    assert message in str(error.value)
    assert not (tmp_path / "cluster.yaml").exists()


def test_a_configuration_that_may_be_cut_off_is_reported(tmp_path: Path) -> None:
    """A last line without a line end, and accounts without users."""
    write_site(tmp_path)
    nodes = tmp_path / "nodes.conf"
    nodes.write_text(nodes.read_text().rstrip("\n"))
    dump = tmp_path / "dump.cfg"
    dump.write_text("".join(dump.read_text().splitlines(keepends=True)[:-2]))
    _, _, report = imported(tmp_path)
    cut = report.entries["guessed"]["the last line has no line end: the file may be cut off"]
    assert cut.places == ["nodes.conf:7"]
    empty = report.entries["guessed"]["accounts without users: the file may be cut off"]
    assert empty.places == ["dump.cfg: biology", "dump.cfg: theory"]


def test_limits_of_typed_devices(tmp_path: Path) -> None:
    """The colon of a type does not end the value."""
    write_site(tmp_path)
    dump = tmp_path / "dump.cfg"
    dump.write_text(dump.read_text().replace("cpu=64,mem=1T", "cpu=64,gres/gpu:a100=4:MaxJobs=7"))
    _, site, _ = imported(tmp_path)
    assert site.accounts["physics"].grp_tres == {"cpu": 64, "gres/gpu:a100": 4}
    assert site.accounts["physics"].max_jobs == 7


def test_includes_stay_in_the_folder(tmp_path: Path) -> None:
    """A path outside is looked up by its name beside the file, and never opened."""
    (tmp_path / "secret.conf").write_text("NodeName=n1")
    site = tmp_path / "site"
    site.mkdir()
    write_site(site)
    conf = site / "slurm.conf"
    text = conf.read_text()
    conf.write_text(text.replace("Include nodes.conf", "Include /etc/slurm/nodes.conf"))
    assert imported(site)[0].node_count == 6
    conf.write_text(text.replace("Include nodes.conf", "Include ../secret.conf"))
    with pytest.raises(InputError, match="is not in the folder"):
        imported(site)


def test_a_file_that_includes_itself_is_an_error(tmp_path: Path) -> None:
    """The number of included files is bounded."""
    write_site(tmp_path)
    (tmp_path / "nodes.conf").write_text("Include nodes.conf\n")
    with pytest.raises(InputError, match="expected at most 100 included files"):
        imported(tmp_path)


@pytest.mark.slow
def test_damaged_configurations_give_a_scenario_or_a_message(tmp_path: Path) -> None:
    """Whatever is cut off or replaced: the error is one of the importer or of the scenario."""
    write_site(tmp_path)
    for name, text in (("slurm.conf", SLURM_CONF), ("nodes.conf", NODES_CONF), ("dump.cfg", DUMP)):
        content = text.encode()
        damaged = [content[:end] for end in range(0, len(content), 47)]
        damaged += [
            content[:at] + new + content[at + 1 :]
            for at in range(0, len(content), 61)
            for new in (b"=", b"\n", b"\xff", b"9")
        ]
        for each in damaged:
            (tmp_path / name).write_bytes(each)
            with suppress(InputError, ScenarioError):
                import_slurm(
                    tmp_path / "slurm.conf",
                    tmp_path / "cluster.yaml",
                    SlurmOptions(sacctmgr=tmp_path / "dump.cfg", force=True),
                )
        (tmp_path / name).write_bytes(content)
