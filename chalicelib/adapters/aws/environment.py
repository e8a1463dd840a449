"""Surroundings: who we are, in which region, and where its services are.

Functions are told by their environment. Whoever runs this elsewhere may have profiles, roles or a browser to sign in
with: what the environment does not say, the SDK finds out, and only then is it loaded.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from chalicelib.adapters.aws.sigv4 import Credentials
from chalicelib.domain.errors import Unavailable

_DOMAINS = {
    "cn-": "amazonaws.com.cn",
    "eusc-": "amazonaws.eu",
    "us-iso-": "c2s.ic.gov",
    "us-isob-": "sc2s.sgov.gov",
    "us-isof-": "csp.hci.ic.gov",
    "eu-isoe-": "cloud.adc-e.uk",
}
"""Regions that are not on the common internet domain, by how their names begin."""


def credentials(environment: Mapping[str, str] = os.environ) -> Callable[[], Credentials]:
    """What says who we are, whenever it is asked: some credentials change by the hour."""
    access_key, secret_key = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if not access_key or not secret_key:
        return _credentials_of_sdk()
    given = Credentials(access_key, secret_key, environment.get("AWS_SESSION_TOKEN"))
    return lambda: given


def region(environment: Mapping[str, str] = os.environ) -> str:
    """The region that is called."""
    return environment.get("AWS_DEFAULT_REGION") or environment.get("AWS_REGION") or _region_of_sdk()


def endpoint(service: str, of_region: str, environment: Mapping[str, str] = os.environ) -> str:
    """The address of a service: what stands in for AWS, or for this service, if anything does."""
    given = environment.get(f"AWS_ENDPOINT_URL_{service.upper()}") or environment.get("AWS_ENDPOINT_URL")
    return given or f"https://{service}.{of_region}.{_domain(of_region)}"


def proxy(address: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The proxy by which an address is reached over TLS, if there is one; what has no TLS stands near."""
    given = environment.get("https_proxy") or environment.get("HTTPS_PROXY")
    if not given or not address.startswith("https:"):
        return None
    from urllib.request import proxy_bypass  # noqa: PLC0415  (functions have no proxy)

    return None if proxy_bypass(urlsplit(address).netloc) else given


def _domain(of_region: str) -> str:
    return next((domain for start, domain in _DOMAINS.items() if of_region.startswith(start)), "amazonaws.com")


def _credentials_of_sdk() -> Callable[[], Credentials]:
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    found = _sdk().get_credentials()
    if found is None:
        raise Unavailable("there are no credentials for AWS")

    def current() -> Credentials:
        try:
            frozen = found.get_frozen_credentials()
        except (BotoCoreError, RuntimeError) as failure:
            raise Unavailable(f"there are no credentials for AWS: {failure}") from failure
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    return current


def _region_of_sdk() -> str:
    from botocore.exceptions import NoRegionError  # noqa: PLC0415

    found: str | None = _sdk().get_config_variable("region")
    if found is None:
        raise NoRegionError
    return found


def _sdk() -> Any:
    from botocore.session import get_session  # noqa: PLC0415

    return get_session()
