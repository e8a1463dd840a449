"""Which services of Apprise may be used with which URLs."""

import sys
from typing import Any

from chalicelib.adapters.webhooks.allowed_hosts import AllowedHost
from chalicelib.adapters.webhooks.public_hosts import PublicHosts

MAX_SOCKET_TIMEOUT_S = 10.0
UNKNOWN = "not a URL that Apprise knows; see https://github.com/caronc/apprise/wiki"


def load_services() -> None:
    """Import Apprise and all its plugins, which it does at the first use otherwise."""
    import apprise  # noqa: PLC0415  (an optional dependency)

    apprise.Apprise.instantiate("json://localhost", suppress_exceptions=True)


def create_service(url: str, hosts: PublicHosts) -> tuple[Any, AllowedHost | None]:
    """The plugin for a URL, and the host that the URL names, if it names one. Raises `ValueError` without the URL."""
    import apprise  # noqa: PLC0415  (an optional dependency)

    asset = apprise.AppriseAsset(
        async_mode=False,
        http_redirects=False,
        allow_templates=False,
        default_service_retry=0,
        storage_mode=apprise.PersistentStoreMode.MEMORY,
        pgp_autogen=False,
        pem_autogen=False,
        plugin_paths=[],
    )
    service = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if service is None:
        raise ValueError(UNKNOWN)
    if not uses_only_http(type(service)):
        raise ValueError(
            f"'{service.schema}' is not available, because it uses this machine or a protocol besides HTTP"
        )
    host = _check_host(service, hosts)
    is_listed = host is not None and host.is_private
    if not service.verify_certificate and not is_listed:
        raise ValueError("verify=no is allowed only for hosts in WEBHOOK_HOSTS")
    service.redirects = False
    service.socket_connect_timeout = min(service.socket_connect_timeout, MAX_SOCKET_TIMEOUT_S)
    service.socket_read_timeout = min(service.socket_read_timeout, MAX_SOCKET_TIMEOUT_S)
    return service, host


def uses_only_http(plugin: type) -> bool:
    """Whether a plugin or one that it extends sends with `requests`.

    The others use sockets, programs or the desktop of this machine.
    """
    modules = {base.__module__ for base in plugin.__mro__ if base.__module__.startswith("apprise.plugins.")}
    return any(hasattr(sys.modules[module], "requests") for module in modules)


def _check_host(service: Any, hosts: PublicHosts) -> AllowedHost | None:
    """The host that the URL names. Services with a fixed host, such as Discord, use TLS."""
    is_secure = service.schema not in _names(service.protocol) or service.schema in _names(service.secure_protocol)
    names_host = any("{host}" in template for template in service.templates)
    if not names_host or getattr(service, "mode", None) == "cloud":
        if not is_secure:
            raise ValueError(_plain_reason(service))
        return None
    port = service.port
    try:
        return hosts.check(service.host, port, is_secure)
    except ValueError as error:
        if not is_secure and "not encrypted" in str(error):
            raise ValueError(_plain_reason(service)) from error
        raise


def _plain_reason(service: Any) -> str:
    secure = next(iter(_names(service.secure_protocol)), None)
    advice = f"; use {secure}://" if secure else ""
    return f"'{service.schema}' is not encrypted, which is allowed only for hosts in WEBHOOK_HOSTS{advice}"


def _names(protocol: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (protocol,) if isinstance(protocol, str) else tuple(protocol or ())
