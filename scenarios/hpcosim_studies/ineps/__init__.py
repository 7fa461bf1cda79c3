"""The experiments of Lopez, Stafford, Bosque 2025 (InEPS) and of the thesis before it.

`heuristics` has what the pairing agent is compared with, the rest the agent itself.
"""
