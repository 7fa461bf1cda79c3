"""A run as files for other tools, one module for each format.

Each writer takes a frame of the whole run and an open binary file, or returns tables:

    drafts      files that appear together, or not at all
    perfetto    a trace for the viewer at ui.perfetto.dev
    parquet     tables for data frames and SQL
    swf         a job log in the Standard Workload Format
    batsim      the files that a run wrote with `--format batsim`
"""
