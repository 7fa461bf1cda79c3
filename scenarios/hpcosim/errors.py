"""The base class of all errors of hpcosim."""

from hpcosim_protocol.errors import HpcosimError as HpcosimError
