"""`hpcosim show top`: a run in the terminal, played back or live.

Each module imports only modules above it:

    source      what is shown: the interface, and the playback of a results folder
    following   a session of a live view
    figures     the figures above the tables
    tables      the rows of the tables
    app         the application
"""
