"""The reference of the experiment file, from the types that read it."""

from __future__ import annotations

from docs.generate.structs import File, file_of, section_text, sections_of

from hpcosim_experiments.definition import SCENARIO, SHORT_NAMES, Experiment


def experiment_file() -> File:
    """Return the experiment file."""
    return file_of(*sections_of(Experiment))


def reference() -> str:
    """Return the reference of all mappings of an experiment file."""
    file = experiment_file()
    return "\n\n".join(section_text(file, section, level=3) for section in file.sections)


def short_names() -> str:
    """Return the table of the short names of paths."""
    paths = {name: f"`{path}`" for name, path in SHORT_NAMES.items()}
    paths[SCENARIO] = "the scenario file"
    lines = [f"| `{name}` | {path} |" for name, path in paths.items()]
    return "\n".join(["| Short name | Path |", "|---|---|", *lines])
