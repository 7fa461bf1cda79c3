"""What a scheduler is written with: the view, the script of a scheduler, and shipped policies."""

from hpcosim_client.script import main as main
from hpcosim_client.view import Policy as Policy
from hpcosim_client.view import View as View
from hpcosim_protocol.errors import HpcosimError as HpcosimError
from hpcosim_schedulers.catalogue.schedulers import make_policy as make_policy
from hpcosim_schedulers.power.manager import managed as managed
