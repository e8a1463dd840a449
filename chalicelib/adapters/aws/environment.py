"""Credentials, region, endpoint and proxy, from environment variables.

Lambda functions have all of them in their environment. On other machines they may come from profiles, roles or SSO,
which only the SDK resolves. It is imported when a variable is missing.
"""

import logging
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
"""Internet domains by prefix of the region, where they differ from `amazonaws.com`."""

_DUAL_STACK_DOMAINS = {
    "cn-": "api.amazonwebservices.com.cn",
    "eusc-": "api.amazonwebservices.eu",
    "us-iso-": "api.aws.ic.gov",
    "us-isob-": "api.aws.scloud",
    "us-isof-": "api.aws.hci.ic.gov",
    "eu-isoe-": "api.cloud-aws.adc-e.uk",
}
"""Domains of endpoints with IPv4 and IPv6, where they differ from `api.aws`."""

_log = logging.getLogger("annals")

_USUAL_GOV_ENDPOINTS = frozenset({"dynamodb", "sqs"})


def credentials_provider(environment: Mapping[str, str] = os.environ) -> Callable[[], Credentials]:
    """A function that returns the current credentials. Those of the SDK may change every hour."""
    access_key, secret_key = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if not access_key or not secret_key:
        if environment.get("AWS_LAMBDA_FUNCTION_NAME"):
            _check_container_credentials(environment)
        return _sdk_credentials_provider()
    credentials = Credentials(access_key, secret_key, environment.get("AWS_SESSION_TOKEN"))
    return lambda: credentials


def region(environment: Mapping[str, str] = os.environ) -> str:
    return environment.get("AWS_DEFAULT_REGION") or environment.get("AWS_REGION") or _sdk_region()


def endpoint(service: str, region_name: str, environment: Mapping[str, str] = os.environ) -> str:
    """The URL of a service: an emulator's if the environment names one, else the one of AWS."""
    override = environment.get(f"AWS_ENDPOINT_URL_{service.upper()}") or environment.get("AWS_ENDPOINT_URL")
    if override:
        return override
    dual_stack = _is_true(environment, "AWS_USE_DUALSTACK_ENDPOINT")
    # In GovCloud, the usual endpoints of these services are the FIPS endpoints.
    is_usual = region_name.startswith("us-gov-") and service in _USUAL_GOV_ENDPOINTS and not dual_stack
    fips = "-fips" if _is_true(environment, "AWS_USE_FIPS_ENDPOINT") and not is_usual else ""
    domain = _domain(region_name, _DUAL_STACK_DOMAINS, "api.aws") if dual_stack else _domain(region_name)
    return f"https://{service}{fips}.{region_name}.{domain}"


def proxy(url: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The proxy for an HTTPS URL. Plain HTTP is only used for local emulators and needs none."""
    proxy_url = environment.get("https_proxy") or environment.get("HTTPS_PROXY")
    if not proxy_url or not url.startswith("https:"):
        return None
    from urllib.request import proxy_bypass  # noqa: PLC0415  (slow to import, and Lambda functions have no proxy)

    return None if proxy_bypass(urlsplit(url).netloc) else proxy_url


def _domain(region_name: str, domains: Mapping[str, str] = _DOMAINS, default: str = "amazonaws.com") -> str:
    return next((domain for prefix, domain in domains.items() if region_name.startswith(prefix)), default)


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() == "true"


def _check_container_credentials(environment: Mapping[str, str]) -> None:
    """A function with SnapStart gets its credentials from an endpoint, and no keys in its environment.

    Raises `Unavailable` if it has neither. The SDK would search for other sources until the function times out.
    """
    if not environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        raise Unavailable(
            "this Lambda function has no credentials: neither AWS_ACCESS_KEY_ID nor AWS_CONTAINER_CREDENTIALS_FULL_URI "
            "is set; check that nothing removes them from its environment"
        )
    _log.info("no keys in the environment: the SDK gets the credentials from the container endpoint")


def _sdk_credentials_provider() -> Callable[[], Credentials]:
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    sdk_credentials = _sdk_session().get_credentials()
    if sdk_credentials is None:
        raise Unavailable("there are no AWS credentials: set AWS_ACCESS_KEY_ID or configure a profile")

    def current() -> Credentials:
        try:
            frozen = sdk_credentials.get_frozen_credentials()
        except (BotoCoreError, RuntimeError) as failure:
            raise Unavailable(f"the AWS credentials cannot be refreshed: {failure}") from failure
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    return current


def _sdk_region() -> str:
    from botocore.exceptions import NoRegionError  # noqa: PLC0415

    region_name: str | None = _sdk_session().get_config_variable("region")
    if region_name is None:
        raise NoRegionError
    return region_name


def _sdk_session() -> Any:
    from botocore.session import get_session  # noqa: PLC0415

    return get_session()
