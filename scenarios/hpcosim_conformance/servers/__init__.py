"""The checks of a server: the kit plays the client, and assumes nothing about the replies."""
