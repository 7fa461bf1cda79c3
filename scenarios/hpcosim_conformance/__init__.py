"""The conformance kit: plays scripted scenarios against any client, or any server, of the protocol.

Each check tries a rule of the specification, `protocol/README.md`, and quotes it when it is broken.
"""
