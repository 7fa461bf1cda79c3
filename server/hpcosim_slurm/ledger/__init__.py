"""What the bridge has seen and done: its journal, and what the journal tells.

* `records`: the records of a journal.
* `journal`: writes and reads journals.
"""
