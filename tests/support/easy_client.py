"""EASY as a separate program that starts faster than `hpcosim schedule easy`.

python easy_client.py tcp://127.0.0.1:28080
"""

from __future__ import annotations

import sys

from hpcosim_client import ClientError, run
from hpcosim_schedulers import make_policy

try:
    run(make_policy("easy"), sys.argv[1])
except ClientError as error:
    sys.exit(f"error: {error}")
