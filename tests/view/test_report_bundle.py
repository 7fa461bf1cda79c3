"""Joining the modules of the web page into one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_view import report as bundling
from hpcosim_view.errors import BundleError
from hpcosim_view.report import bundle, web_file

WEB = Path(bundling.__file__).parent / "web"


def test_all_modules_of_the_page_join_into_one() -> None:
    """No module syntax is left, and nothing points to the network."""
    script = bundle("report_main.js")
    lines = [line.lstrip() for line in script.splitlines()]
    assert not [line for line in lines if line.startswith(("import", "export"))]
    assert "async function decodeFrame(" in script
    assert "http" not in script + web_file("report.css") + web_file("report.html").replace(
        "http-equiv", ""
    )
    assert "</script" not in script
    assert "innerHTML" not in script


def test_a_module_comes_once_and_after_those_that_it_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Imports over several lines are followed, and exports lose their keyword only."""
    _modules(
        monkeypatch,
        main='import { b } from "./b.js";\nimport {\n  a,\n} from "./a.js";\nb(a);\n',
        b='import { a } from "./a.js";\nexport function b() {\n  return a;\n}\n',
        a="export const a = 1;\n",
    )
    assert bundle("main.js") == "const a = 1;\nfunction b() {\n  return a;\n}\nb(a);\n"


@pytest.mark.parametrize(
    ("main", "message"),
    [
        ('import { a } from "./a.js";\nconst c = 1;\n', "c is also declared in web/a.js"),
        ('import { z } from "./a.js";\n', "web/a.js exports no z"),
        ('import * as a from "./a.js";\n', "unknown module syntax"),
        ("export default 3;\n", "unknown module syntax"),
        ('import { a } from "./missing.js";\n', "missing.js: no such file"),
        ('import { b } from "./main.js";\n', "modules import each other"),
    ],
)
def test_what_cannot_be_joined_is_an_error(
    main: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the module and what is wrong."""
    _modules(monkeypatch, main=main, a="export const a = 1;\nconst c = 2;\n")
    with pytest.raises(BundleError, match=message):
        bundle("main.js")


def test_every_module_has_names_of_its_own() -> None:
    """The pages join different modules; all of them together still have unique names."""
    owners: dict[str, str] = {}
    for path in sorted(WEB.glob("*.js")):
        if path.name.endswith("_main.js"):
            continue
        for name in set(bundling.DECLARED.findall(bundling.EXPORT.sub("", path.read_text()))):
            assert owners.setdefault(name, path.name) == path.name, name


def _modules(monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    def read(name: str) -> str:
        if name.removesuffix(".js") not in texts:
            raise BundleError(f"web/{name}: no such file in the package hpcosim_view")
        return texts[name.removesuffix(".js")]

    monkeypatch.setattr(bundling, "web_file", read)
