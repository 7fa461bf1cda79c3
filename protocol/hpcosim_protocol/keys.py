"""CURVE keys of servers and clients, in certificate files of ZeroMQ.

`make_keys` makes a folder for the server and one for each client, so that each machine gets one
folder:

    KEYS/server/server.key_secret    secret key of the server, mode 0600
    KEYS/server/clients/NAME.key     public keys of the clients that the server admits
    KEYS/NAME/client.key_secret      secret key of a client, mode 0600
    KEYS/NAME/server.key             public key of the server

The format of a file is that of `zmq.auth.create_certificates` (ZeroMQ RFC 4/ZPL); see also RFC 26
(CurveZMQ). A key has 32 bytes, in Z85 40 characters.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcosim_protocol.errors import ProtocolError
from hpcosim_protocol.files import read_regular

if TYPE_CHECKING:
    import zmq

SECRET, PUBLIC = ".key_secret", ".key"
SERVER, CLIENT, CLIENTS = "server", "client", "clients"
MAX_BYTES = 4096  # of a certificate file
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
LINE = re.compile(rb"""^\s*(public|secret)-key\s*=\s*["']?([!-~]{40})["']?\s*$""", re.MULTILINE)


class KeysError(ProtocolError):
    """A file or folder of keys is invalid."""

    exit_status = 2


class KeyPair(NamedTuple):
    """A public key and its secret key, each 40 characters of Z85."""

    public: bytes
    secret: bytes


class ServerKeys(NamedTuple):
    """The keys of a server.

    Attributes:
        clients: folder with the public keys of the clients that it admits.
    """

    own: KeyPair
    clients: Path


class ClientKeys(NamedTuple):
    """The keys of a client.

    Attributes:
        own: its key pair.
        server: public key of the server; the client talks to no other.
    """

    own: KeyPair
    server: bytes


def make_keys(folder: Path, client: str = CLIENT) -> list[Path]:
    """Make the keys of a server and of a client, where they do not exist, and admit the client.

    Args:
        client: name of the client, and of its folder: letters, digits and `-_.`.

    Returns:
        The files that were written. Existing files are kept.

    Raises:
        KeysError: the name cannot be used, an existing file is invalid, or one cannot be written.
    """
    if not NAME.fullmatch(client) or client == SERVER:
        raise KeysError(
            f"expected a client's name of at most 64 letters, digits, '-', '_' and '.', other than "
            f"{SERVER!r}, got {client!r}"
        )
    written: list[Path] = []
    if folder.exists() and not folder.is_dir():
        raise KeysError(f"{folder}: expected a folder for the keys, or a new name; it is a file")
    server = _pair_in(folder / SERVER / (SERVER + SECRET), written)
    admitted = folder / SERVER / CLIENTS / (client + PUBLIC)
    secret = folder / client / (CLIENT + SECRET)
    if admitted.exists() and not secret.exists():
        raise KeysError(
            f"{admitted} exists and {secret} does not: the client has its secret key elsewhere; "
            "remove the public key to make new keys"
        )
    own = _pair_in(secret, written)
    _write_public(admitted, own.public, written)
    _write_public(folder / client / (SERVER + PUBLIC), server.public, written)
    return written


def read_server_keys(folder: Path) -> ServerKeys:
    """Return the keys of a server: `server.key_secret` and the folder `clients`.

    Raises:
        KeysError: a file is missing or invalid.
    """
    if not (folder / CLIENTS).is_dir():
        hint = f"; did you mean {folder / SERVER}?" if (folder / SERVER / CLIENTS).is_dir() else ""
        raise KeysError(
            f"{folder}: expected a folder with {SERVER + SECRET} and {CLIENTS}/, as `hpcosim "
            f"keygen` makes it{hint}"
        )
    return ServerKeys(read_pair(folder / (SERVER + SECRET)), folder / CLIENTS)


def read_client_keys(path: Path, server_key: Path | None = None) -> ClientKeys:
    """Return the keys of a client.

    Args:
        path: the folder of the client, with `client.key_secret` and `server.key`; or the file of
            its secret key.
        server_key: file with the public key of the server; None: `server.key` in that folder.

    Raises:
        KeysError: a file is missing or invalid.
    """
    secret = path / (CLIENT + SECRET) if path.is_dir() else path
    return ClientKeys(
        read_pair(secret), read_public(server_key or secret.parent / (SERVER + PUBLIC))
    )


def client_keys(path: Path | None, server_key: Path | None = None) -> ClientKeys | None:
    """Return the keys that a user names, see `read_client_keys`; None: the user names none.

    Raises:
        KeysError: a file is missing or invalid, or only the server's key is named.
    """
    if path is not None:
        return read_client_keys(path, server_key)
    if server_key is not None:
        raise KeysError(
            f"{server_key}: the key of the server (--server-key, server_key=) needs the client's "
            "own keys, too (--keys, keys=)"
        )
    return None


def connect_with(socket: zmq.Socket[bytes], keys: ClientKeys | None) -> None:
    """Let a client's socket, which is not connected yet, use keys; None: it uses none."""
    if keys is not None:
        socket.curve_publickey, socket.curve_secretkey = keys.own
        socket.curve_serverkey = keys.server


def read_pair(path: Path) -> KeyPair:
    """Return the key pair in a certificate file with a secret key."""
    found = _read(path)
    if set(found) != {b"public", b"secret"}:
        raise KeysError(f"{path}: expected the lines public-key and secret-key of 40 characters")
    return KeyPair(found[b"public"], found[b"secret"])


def read_public(path: Path) -> bytes:
    """Return the public key in a certificate file."""
    try:
        return _read(path)[b"public"]
    except KeyError:
        raise KeysError(f"{path}: expected a line public-key of 40 characters") from None


def _read(path: Path) -> dict[bytes, bytes]:
    try:
        data = read_regular(path, MAX_BYTES)
    except OSError as error:
        raise KeysError(
            f"{path}: cannot read the key: {error.strerror}; `hpcosim keygen` makes keys"
        ) from None
    return dict(LINE.findall(data))


def _pair_in(path: Path, written: list[Path]) -> KeyPair:
    """Return the key pair in a file, which is written if there is none."""
    if path.exists():
        return read_pair(path)
    import zmq

    pair = KeyPair(*zmq.curve_keypair())
    text = f'    public-key = "{pair.public.decode()}"\n    secret-key = "{pair.secret.decode()}"\n'
    _write(path, "# ZeroMQ CURVE secret certificate. Keep it secret.\n", text, 0o600, written)
    return pair


def _write_public(path: Path, key: bytes, written: list[Path]) -> None:
    if path.exists():
        if read_public(path) != key:
            raise KeysError(f"{path}: has another key; remove it to replace it")
        return
    text = f'    public-key = "{key.decode()}"\n'
    _write(path, "# ZeroMQ CURVE public certificate.\n", text, 0o644, written)


def _write(path: Path, comment: str, keys: str, mode: int, written: list[Path]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{comment}metadata\ncurve\n{keys}")
    except OSError as error:
        raise KeysError(f"{path}: cannot write the key: {error.strerror}") from None
    written.append(path)
