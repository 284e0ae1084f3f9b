"""Which proxy leads to a server, by the environment: `HTTPS_PROXY`, `NO_PROXY` and the like."""

import ipaddress
import os
from typing import Final
from urllib.parse import urlsplit

_LOCAL: Final = "localhost"
_NAMES: Final = "_proxy"
"""How the variables end that name proxies, in whatever case."""


def proxy_for(url: str) -> str:
    """The proxy to ask for a server; empty if it is reached directly, as everything on this machine is."""
    parts = urlsplit(url)
    if _is_here(parts.hostname or "") or not any(name.lower().endswith(_NAMES) for name in os.environ):
        return ""
    from urllib.request import getproxies_environment, proxy_bypass  # noqa: PLC0415 - slow, and for few

    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return getproxies_environment().get(parts.scheme, "")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == _LOCAL
