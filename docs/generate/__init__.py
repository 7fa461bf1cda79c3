"""Generators of the reference pages; `hooks` connects them to MkDocs.

Each module returns Markdown from the types, docstrings or files of one part of hpcosim. A page of
`docs/` contains the prose and a marker, `<!-- generated: NAME -->`, where the text belongs.
"""
