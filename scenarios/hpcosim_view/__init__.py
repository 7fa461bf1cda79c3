"""Views of a run: figures, a page for the browser, tables for the terminal, files for other tools."""
