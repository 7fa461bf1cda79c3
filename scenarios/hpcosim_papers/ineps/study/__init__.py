"""The experiments of Lopez, Stafford, Bosque 2025 (InEPS) and of Lopez Rauhut's thesis (2023).

`heuristics` runs the heuristics; the other modules train and evaluate the pairing agent.
"""
