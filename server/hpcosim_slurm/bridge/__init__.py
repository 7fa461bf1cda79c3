"""The server's side of the protocol for a live cluster, for one scheduler at a time.

* `session`: the session of a scheduler: requests in, replies out.
* `course`: what the records of a journal do; the state of a bridge.
* `bridge`: messages of clients and states of the cluster in, replies out.
* `caller`: the scheduler at the other end. `succession`: one that replaces another.
* `acting`: carries out what a live world orders, and the fall-back to shadow.
* `status`: its status for operators.
* `restoring`: its state from its journal.
* `opening`: checks the cluster and opens a bridge.
* `polling`: reads the state of the cluster, in a thread.
* `serving`: the loop with a socket.
"""
