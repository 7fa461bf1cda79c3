"""The service: sessions of simulations for schedulers in other processes, over ZeroMQ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_server.errors import ServerError as ServerError
    from hpcosim_server.errors import SessionRefused as SessionRefused
    from hpcosim_server.service.limits import Limits as Limits
    from hpcosim_server.service.service import Service as Service
    from hpcosim_server.service.session import Opened as Opened
    from hpcosim_server.service.socket_loop import ServeOptions as ServeOptions
    from hpcosim_server.service.socket_loop import serve as serve

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "errors": "ServerError SessionRefused",
        "service.limits": "Limits",
        "service.service": "Service",
        "service.session": "Opened",
        "service.socket_loop": "ServeOptions serve",
    },
)
