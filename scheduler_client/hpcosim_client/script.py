"""The command line of a script that is a scheduler."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from hpcosim_client.connection import Timeouts
from hpcosim_client.errors import AddressError, ClientError
from hpcosim_client.loop import run
from hpcosim_client.view import Policy
from hpcosim_protocol.keys import KeysError

DEFAULT_ADDRESS = "tcp://127.0.0.1:28080"
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(policy: Policy, arguments: Sequence[str] | None = None) -> None:
    """Schedule one simulation as a script does: read options, run, print the metrics.

    The options are `--connect`, `--name`, `--scenario`, `--seed`, `--set`, `--session`,
    `--from-snapshot`, `--timeout-s`, `--explain`, `--keys`, `--server-key` and `--json`; `--help`
    describes them. An error of the client or the server ends the script with one line on standard
    error and exit status 1, an invalid address or option with status 2, Ctrl-C with 130. An
    exception of the policy itself keeps its traceback.

    Args:
        arguments: the command line; None: `sys.argv[1:]`.

    Example:
        >>> if __name__ == "__main__":
        ...     main(first_come_first_served)
    """
    options = _parser(policy).parse_args(arguments)
    try:
        metrics = run(
            policy,
            options.connect,
            name=options.name,
            scenario=options.scenario,
            seed=options.seed,
            overrides=dict(options.overrides),
            session=options.session,
            from_snapshot=options.from_snapshot,
            timeouts=Timeouts(min(5.0, options.timeout_s / 2), hello_s=options.timeout_s),
            explain=options.explain,
            keys=options.keys,
            server_key=options.server_key,
        )
    except KeysError as error:
        _exit(str(error), BAD_INPUT)
    except ClientError as error:
        _exit(str(error), BAD_INPUT if isinstance(error, AddressError) else FAILED)
    except KeyboardInterrupt:
        _exit("stopped by SIGINT", INTERRUPTED)
    _print(metrics, as_json=options.json)


def _exit(message: str, status: int) -> NoReturn:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    raise SystemExit(status) from None


def _parser(policy: Policy) -> argparse.ArgumentParser:
    name = getattr(policy, "__name__", "the policy")
    parser = argparse.ArgumentParser(
        description=f"Schedule one simulation of an hpcosim server with {name}.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--connect", default=DEFAULT_ADDRESS, metavar="ADDRESS", help="address of the server")
    add(
        "--name", default="", metavar="TEXT", help="name in status and results; empty: the function"
    )
    add("--scenario", default="", metavar="NAME", help="a scenario of the server; empty: its first")
    add("--seed", type=int, help="seed of the simulation; None: the scenario's own")
    add(
        "--set",
        dest="overrides",
        type=_override,
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change a value of the scenario, such as workload.load=1.2; repeatable",
    )
    add("--session", default="", metavar="ID", help="session to resume after its client ended")
    add("--from-snapshot", action="store_true", help="resume a session with another policy")
    add("--timeout-s", type=float, default=20.0, help="timeout of the server's first reply, in s")
    add("--explain", action="store_true", help="send explanations of view.explain")
    add("--keys", metavar="PATH", help="folder or secret key of this client")
    add("--server-key", metavar="FILE", help="public key of the server")
    add("--json", action="store_true", help="print the metrics as JSON")
    return parser


def _override(text: str) -> tuple[str, bool | int | float | str]:
    field, equals, value = text.partition("=")
    if not field or not equals:
        raise argparse.ArgumentTypeError(f"expected FIELD=VALUE, got {text!r}")
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError:
        return field, value
    return field, parsed if isinstance(parsed, bool | int | float) else value


def _print(metrics: Mapping[str, int | float], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(metrics, indent=2) + "\n")
        return
    width = max(map(len, metrics), default=0)
    for name, value in metrics.items():
        sys.stdout.write(f"{name:{width}}  {value:,}\n")
