"""Examples at the end of the help text of commands."""

from __future__ import annotations

from collections.abc import Mapping


def _examples(*commands: str) -> str:
    lines = "\n".join(commands)
    return f"Examples:\n\n\b{lines}"  # \b: the documentation shows the paragraph as code


EXAMPLES: Mapping[str, str] = {
    "run": _examples(
        "hpcosim run my_cluster.yaml",
        "hpcosim run demo --scheduler conservative --out results/a",
        "hpcosim run demo --set workload.load=2 --seed 3 --json",
        "hpcosim run demo --watch --speed 3600",
    ),
    "compare": _examples(
        "hpcosim compare demo --schedulers fcfs,sjf,easy",
        "hpcosim compare demo --schedulers all-heuristics --json",
        "hpcosim compare demo --platforms demo,larger.yaml --schedulers fcfs,easy",
        "hpcosim compare office-hours --baseline always-on \\\n"
        "    --power 'always-on, {name: timeout, timeout_s: 900}'",
    ),
    "experiment": _examples(
        "hpcosim experiment backfilling --dry-run",
        "hpcosim experiment my_study.yaml --out results/study -j 8",
    ),
    "serve": _examples(
        "hpcosim serve demo --once --out results/mine",
        "hpcosim serve demo --bind tcp://127.0.0.1:5555 --sessions 2",
        "hpcosim serve demo --http 127.0.0.1:8080 --speed 3600",
    ),
    "slurm": _examples(
        "hpcosim slurm --journal watched.jsonl",
        "hpcosim slurm --partition batch --poll-s 5",
        "hpcosim slurm --mode place --partition main --waiting-partition queue --dry-run",
        "hpcosim slurm report watched.jsonl --out watched",
    ),
    "keygen": _examples(
        "hpcosim keygen keys",
        "hpcosim keygen keys --name laptop",
        "hpcosim serve demo --bind 'tcp://*:28080' --keys keys/server",
        "hpcosim schedule easy --connect tcp://simulator:28080 --keys keys/laptop",
    ),
    "schedule": _examples(
        "hpcosim schedule easy",
        "hpcosim schedule easy --name student7",
        "hpcosim schedule easy --connect tcp://127.0.0.1:5555 --scenario demo",
    ),
    "replay": _examples(
        "hpcosim replay out/.journal/ended/demo-easy-1f3a9c02.journal",
        "hpcosim replay easy.journal --until 86400 --from-here fcfs --out results/what-if",
    ),
    "ping": _examples("hpcosim ping tcp://127.0.0.1:28080 --timeout-s 10"),
    "status": _examples("hpcosim status", "hpcosim status --connect tcp://127.0.0.1:5555 --json"),
    "forecast": _examples(
        "hpcosim forecast",
        "hpcosim forecast --samples 100 --workers 0 --json",
        "hpcosim forecast --record queue.json",
        "hpcosim forecast --state queue.json --history sacct.psv",
    ),
    "conformance": _examples(
        "hpcosim conformance --client 'python my_scheduler.py {address}'",
        "hpcosim conformance --server tcp://127.0.0.1:28080 --scenario conformance",
    ),
    "validate": _examples(
        "hpcosim validate demo",
        "hpcosim validate demo --set workload.load=0.8",
    ),
    "scenarios": _examples("hpcosim scenarios", "hpcosim scenarios demo > my_cluster.yaml"),
    "draw": _examples("hpcosim show draw results/demo-easy"),
    "squeue": _examples(
        "hpcosim show squeue results/demo-easy --at 2d",
        "hpcosim show squeue --server http://127.0.0.1:8080 --start",
    ),
    "sinfo": _examples(
        "hpcosim show sinfo results/demo-easy --at 50%",
        "hpcosim show sinfo --server http://127.0.0.1:8080",
    ),
    "top": _examples(
        "hpcosim show top results/demo-easy --speed 7200",
        "hpcosim show top --server http://127.0.0.1:8080",
    ),
    "export": _examples(
        "hpcosim export results/demo-easy --perfetto demo.pftrace",
        "hpcosim export results/demo-easy --parquet tables --swf demo.swf",
    ),
    "report": _examples(
        "hpcosim report results/demo-easy",
        "hpcosim report results/compared/fcfs results/compared/easy -o compared.html",
    ),
    "import slurm": _examples(
        "hpcosim import slurm --conf slurm.conf --sacctmgr dump.cfg -o cluster.yaml",
        "hpcosim import slurm --conf slurm.conf --reservations reservations.txt "
        "--start 2026-03-02T08:00:00 -o cluster.yaml",
    ),
    "import sacct": _examples(
        "hpcosim import sacct sacct.psv -o jobs.jsonl --time-zone Europe/Berlin",
        "hpcosim import sacct sacct.psv.gz -o jobs.jsonl --anonymize --names private.json",
    ),
    "import kubernetes": _examples(
        "hpcosim import kubernetes pods.csv -o jobs.jsonl --column cores_milli=cpu",
    ),
    "benchmark run": _examples(
        "hpcosim benchmark run backfilling-1 --scheduler easy --out easy.zip",
        "hpcosim benchmark run backfilling-1 --client 'python mine.py --connect {address}' \\\n"
        "    --name mine --out mine.zip",
    ),
    "benchmark verify": _examples("hpcosim benchmark verify mine.zip"),
    "benchmark leaderboard": _examples("hpcosim benchmark leaderboard easy.zip mine.zip"),
    "reproduce": _examples("hpcosim reproduce", "hpcosim reproduce ineps --out results/ineps"),
}
"""The epilog of a command's help text, by command."""
