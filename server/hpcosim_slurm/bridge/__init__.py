"""The server's side of the protocol for a live cluster, for one scheduler at a time.

* `session`: the session of a scheduler, and the state of a bridge.
* `bridge`: messages of clients and states of the cluster in, replies out; the fall-back.
* `run`: checks the cluster, opens a bridge and serves it.
"""
