"""Who may speak to a test's API server, and how: tokens, kubeconfigs, keys, and a client of a few lines."""

import base64
import csv
import http.client
import json
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ADMIN: Final = "admin"
NOBODY: Final = "nobody"
USERS: Final[Mapping[str, Sequence[str]]] = {
    ADMIN: ("system:masters",),
    NOBODY: (),
    "alice": ("team-a",),
    "bob": ("team-b",),
}
"""Users and their groups. Nobody but the administrator has rights, until a test binds a role."""

_EC_KEY: Final = "30310201010420{}a00a06082a8648ce3d030107"
"""An elliptic curve private key (SEC 1, P-256) around its 32 random bytes."""

Tokens = Mapping[str, str]
Object = dict[str, Any]


def make_tokens(users: Mapping[str, Sequence[str]], path: Path) -> Tokens:
    """Give every user a token, and write them as kube-apiserver's --token-auth-file wants them."""
    tokens = {user: secrets.token_hex(16) for user in users}
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            (tokens[user], user, f"uid-{user}", ",".join(groups)) for user, groups in users.items()
        )
    return tokens


def make_signing_key(path: Path) -> None:
    """Write a key to sign the tokens of service accounts with; no library is needed for one on a curve."""
    number = bytearray(secrets.token_bytes(32))
    number[0] &= 0x7F  # below the order of the curve, whatever the dice say
    encoded = base64.b64encode(bytes.fromhex(_EC_KEY.format(number.hex()))).decode()
    path.write_text(f"-----BEGIN EC PRIVATE KEY-----\n{encoded}\n-----END EC PRIVATE KEY-----\n")


def write_kubeconfig(path: Path, *, url: str, authority: bytes, user: str, token: str) -> None:
    """A kubeconfig of one user, in JSON, which every YAML parser reads."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config, indent=2))


@dataclass(frozen=True)
class Client:
    """Speaks JSON to an API server as one user; an error of the server is an answer like any other."""

    url: str
    token: str
    tls: ssl.SSLContext

    def call(
        self, method: str, path: str, body: Object | None = None, *, media: str = "application/json"
    ) -> tuple[int, Object]:
        """The status code and the object of the answer; `media` is the sort of the body, such as a patch."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": media}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 - https
        try:
            with self._open(request) as answer:
                return answer.status, _decoded(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _decoded(error.read())

    def _open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """Loopback is reached directly, whatever proxy the surroundings name."""
        direct = urllib.request.ProxyHandler({})
        opener = urllib.request.build_opener(direct, urllib.request.HTTPSHandler(context=self.tls))
        answer: http.client.HTTPResponse = opener.open(request, timeout=60)
        return answer

    def get(self, path: str) -> Object:
        """What is there; an error is raised, as a test that reads expects none."""
        code, found = self.call("GET", path)
        if code >= 400:
            raise RuntimeError(f"GET {path}: {code} {found.get('message')}")
        return found

    def create(self, path: str, body: Object) -> Object:
        """What was made; an error is raised."""
        code, made = self.call("POST", path, body)
        if code >= 400:
            raise RuntimeError(f"POST {path}: {code} {made.get('message')}")
        return made

    def ready(self) -> bool:
        """Whether the server says that it is; one that cannot be reached is not."""
        try:
            return self.call("GET", "/readyz")[0] == 200
        except OSError:
            return False


def _decoded(text: bytes) -> Object:
    """The object in an answer; health checks and failures may answer in plain text."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"message": text.decode(errors="replace")}
