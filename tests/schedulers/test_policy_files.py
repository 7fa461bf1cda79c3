"""Schedulers of the user's own, `PATH.py:FUNCTION`, wherever a scheduler is named."""

from __future__ import annotations

import hashlib
import json
import queue
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hpcosim.cli.main import app
from hpcosim_client import PolicyError
from hpcosim_scenarios.running.run import run_scenario
from hpcosim_schedulers import check_scheduler, make_policy
from hpcosim_schedulers.catalogue.power import title
from hpcosim_schedulers.power.settings import AlwaysOn, Timeout
from support.simulating import cluster_of, jobs_of, simulate, starts

MINE = '''"""Policies of a user."""
from __future__ import annotations

from dataclasses import dataclass

from helpers import HELD
from hpcosim_schedulers import managed, timeout

@dataclass
class Count:
    calls: int = 0

count = Count()

def greedy(view):
    """Start every job that fits; fail after 60 calls, more than one simulation has."""
    count.calls += 1
    assert count.calls <= 60, "state of another simulation"
    for job in list(view.queue.values()):
        view.start(job)

class Greedy:
    def __call__(self, view):
        greedy(view)

instance = Greedy()
saving = managed(greedy, timeout(60.0))

def factory():
    return greedy

def broken(view):
    return 1 / len(HELD)

number = 3
'''
SCENARIO = """name: tiny
platform: {nodes: [{count: 4, processors: [{cores: 2, static_w: 10, dynamic_w: 0}]}]}
workload:
  synthetic: {model: poisson, jobs: 20, mean_interarrival_s: 60, cores: [1, 8], run_s: [10, 900]}
scheduler: {name: "policies/mine.py:greedy"}
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`below/tiny.yaml`, with `mine.py` in a folder beside it, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("below/policies").mkdir(parents=True)
    Path("below/tiny.yaml").write_text(SCENARIO)
    Path("below/policies/mine.py").write_text(MINE)
    Path("below/policies/helpers.py").write_text("HELD = []\n")


def own(function: str) -> str:
    """Return the name of a policy of `mine.py`."""
    return f"below/policies/mine.py:{function}"


def invoke(*arguments: str) -> Result:
    """Run `hpcosim` in this process."""
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.mark.parametrize("function", ["greedy", "instance"])
def test_a_function_of_a_file_schedules(function: str) -> None:
    """Job 3 overtakes job 2, which the cluster has no room for."""
    jobs = jobs_of((0.0, 10.0, 1), (1.0, 10.0, 2), (2.0, 5.0, 1))
    assert starts(simulate(cluster_of(1, 2), jobs, own(function))) == {1: 0.0, 2: 10.0, 3: 2.0}


def test_state_of_a_file_is_of_one_simulation() -> None:
    """`make_policy` executes the file anew: the counter of `mine.py` starts at 0 each time."""
    jobs = jobs_of(*((30.0 * i, 5.0, 1) for i in range(20)))
    for _ in range(3):
        found = starts(simulate(cluster_of(1, 2), jobs, own("greedy")))
        assert found == {i + 1: 30.0 * i for i in range(20)}


def test_the_folder_of_the_file_is_left_as_it_was() -> None:
    """Executing a policy file caches nothing beside it."""
    before = sorted(path.name for path in Path("below/policies").glob("*.py*"))
    make_policy(own("greedy"))
    assert sorted(path.name for path in Path("below/policies").glob("*.py*")) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("below/gone.py:f", "below/gone.py: cannot be read: No such file"),
        (own("greedi"), "there is no function 'greedi'; did you mean greedy?"),
        (own("zzz"), "there is no function 'zzz'; it defines Count, greedy, Greedy, "),
        (own("Greedy"), "mine.py: Greedy is a class; expected a function of one argument"),
        (own("number"), "mine.py: number is of type int; expected a function"),
        (own("factory"), r"mine.py: factory\(\): expected a function of one argument, the view"),
        ("below/policies/mine.py", "expected the name of a function after the file"),
        ("below/policies/mine.py:", "expected the name of a function after the file"),
    ],
)
def test_a_file_that_has_no_such_policy(name: str, message: str) -> None:
    """The error names the file and a remedy, in one line."""
    with pytest.raises(PolicyError, match=message) as error:
        make_policy(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import gone_module\n", r"mine.py:1: ModuleNotFoundError: No module named 'gone_module'"),
        ("x = 1\n\ndef f(view:\n", r"mine.py:3: SyntaxError: '\(' was never closed"),
        ("def g():\n    raise ValueError('three')\n\ng()\n", r"mine.py:2: ValueError: three"),
        ("import sys\nsys.exit(3)\n", r"mine.py:2: SystemExit: 3"),
    ],
)
def test_a_file_that_fails_when_it_is_executed(source: str, message: str) -> None:
    """The error names the line of the file."""
    Path("below/policies/mine.py").write_text(source)
    with pytest.raises(PolicyError, match=message):
        make_policy(own("f"))


def test_an_exception_of_the_policy_names_its_line() -> None:
    """In one line, with the exception as its cause."""
    with pytest.raises(PolicyError, match=r"mine.py:33: ZeroDivisionError: division") as error:
        simulate(cluster_of(1, 2), jobs_of((0.0, 1.0, 1)), own("broken"))
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_the_name_is_checked_without_the_file() -> None:
    """The file need not exist."""
    assert check_scheduler("gone/mine.py:f") == "gone/mine.py:f"


def test_titles_have_no_folder() -> None:
    """They identify file and function."""
    assert title(own("greedy"), AlwaysOn()) == "mine.py:greedy"
    assert title(own("greedy"), Timeout(9.0)) == "unaware mine.py:greedy, timeout(timeout_s=9.0)"


def test_run_takes_it_from_the_scenario_and_from_the_command_line() -> None:
    """In the scenario its path starts at the scenario's folder, else at the current one."""
    run = ["run", "below/tiny.yaml", "--transport", "inproc"]
    assert invoke(*run).exit_code == 0
    assert invoke(*run, "--scheduler", f"./{own('greedy')}", "--out", "out").exit_code == 0
    for folder in ("results/tiny-greedy", "out"):
        assert json.loads(Path(folder, "run.json").read_text())["scheduler"] == "mine.py:greedy"


def test_compare_takes_it() -> None:
    """Beside a scheduler of the catalogue, under the name that was typed."""
    done = invoke("compare", "below/tiny.yaml", "--schedulers", f"fcfs,{own('greedy')}", "--json")
    metrics = json.loads(done.stdout)
    assert list(metrics) == ["fcfs", own("greedy")]
    assert metrics["fcfs"] != metrics[own("greedy")]


@pytest.mark.slow
def test_what_a_policy_prints_in_its_process_is_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """More than a pipe holds, on standard error: standard output is for the results."""
    policy = Path("below/policies/loud.py")
    policy.write_text(MINE.replace("count.calls += 1", "print('x' * 9999, 'called')"))
    run_scenario(
        Path("below/tiny.yaml"),
        scheduler=f"{policy.resolve()}:greedy",
        transport="ipc",
        out=tmp_path / "out",
    )
    out, err = capfd.readouterr()
    assert "called" not in out
    assert err.count("x called") > 10


def test_results_are_the_same_over_every_transport(tmp_path: Path) -> None:
    """They record the checksums of the file and of its imports, and no path of the machine."""
    for transport in ("inproc", "ipc", "tcp"):
        run_scenario(Path("below/tiny.yaml"), transport=transport, out=tmp_path / transport)
    texts = [(tmp_path / name / "run.json").read_text() for name in ("inproc", "ipc", "tcp")]
    assert texts[0] == texts[1] == texts[2]
    assert json.loads(texts[0])["policy"] == {
        "name": "mine.py:greedy",
        "settings": {
            "scheduler": "mine.py:greedy",
            "power": {"name": "always-on"},
            "power_awareness": "unaware",
        },
        "source_sha256": hashlib.sha256(MINE.encode()).hexdigest(),
        "modules_sha256": {"helpers": hashlib.sha256(b"HELD = []\n").hexdigest()},
    }
    assert str(tmp_path) not in texts[0]


def test_a_file_gets_the_modules_of_its_own_folder(tmp_path: Path) -> None:
    """Two folders can have modules of the same name, and an edited module is read again."""
    for folder in ("a", "b", "a"):
        (tmp_path / folder).mkdir(exist_ok=True)
        helper = tmp_path / folder / "helper_of_policies.py"
        told = f"{folder} {helper.exists()}"
        helper.write_text(f"NAME = {told!r}\n")
        policy = tmp_path / folder / "policy.py"
        policy.write_text(
            "from helper_of_policies import NAME\n\n\n"
            "def named(view):\n    raise ValueError(NAME)\n"
        )
        with pytest.raises(PolicyError, match=told):
            make_policy(f"{policy}:named")(None)  # type: ignore[arg-type]


def test_a_module_beside_a_file_does_not_replace_one_of_python() -> None:
    """The rest of the process keeps the module of the standard library."""
    Path("below/policies/queue.py").write_text("")
    Path("below/policies/own.py").write_text("import queue\n\n\ndef idle(view):\n    pass\n")
    make_policy("below/policies/own.py:idle")
    assert sys.modules["queue"] is queue
