"""Which proxy leads to a server, by the environment: `HTTPS_PROXY`, `NO_PROXY` and the like."""

import ipaddress
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

_LOCAL: Final = "localhost"


def proxy_for(url: str) -> str:
    """The proxy to ask for a server; empty if it is reached directly, as everything on this machine is."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_here(host) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return getproxies_environment().get(parts.scheme, "")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == _LOCAL
