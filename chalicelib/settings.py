"""Settings, read from environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from chalicelib.domain import durations
from chalicelib.domain.log.append import RECEIPT_STORED_S
from chalicelib.domain.organizations.groups import Groups


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Where exports, history and reports are."""

    directory: Path
    """Local exports."""
    table_arn: str
    """On AWS: ARN of the log table."""
    bucket: str
    """On AWS: bucket of the exports."""
    prefix: str
    lake_url: str
    """Where the history job writes."""
    history_job: str
    reports_job: str
    report_url: str
    """URL of the report page for people, if it is published elsewhere."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        get = environment.get
        return cls(
            directory=Path(get("EXPORT_DIR") or Path(get("DATA_DIR") or "data") / "exports"),
            table_arn=get("LOG_TABLE_ARN") or "",
            bucket=get("EXPORT_BUCKET") or "",
            prefix=(get("EXPORT_PREFIX") or "").strip("/"),
            lake_url=get("LAKE_URL") or "",
            history_job=get("HISTORY_JOB") or "annals-history",
            reports_job=get("REPORTS_JOB") or "annals-reports",
            report_url=get("REPORT_URL") or "",
        )


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """On AWS: the queue of events to append, and the queue of refused messages."""

    queue_url: str
    dead_letter_queue_url: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        get = environment.get
        return cls(get("INGEST_QUEUE_URL") or "", get("INGEST_DEAD_LETTER_QUEUE_URL") or "")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a process."""

    store: str
    """`sqlite` or `dynamodb`."""
    is_hub: bool
    """Whether this process is the server on DynamoDB. The server sets it for itself."""
    aws_client: str
    """`boto3`, or empty for the small client of Annals."""
    function: str
    """Name of this Lambda function. Empty elsewhere."""
    stack: str
    """Name of this function's CloudFormation stack. A dimension of its metrics."""
    tracing: bool
    """Whether a Lambda function sends traces to X-Ray."""
    data_dir: Path
    private_data: bool
    """Whether other users of this machine have no access to the data directory."""
    allow_old_sqlite: bool
    """Whether a SQLite library with the WAL-reset bug may be used."""
    log_table: str
    views_table: str
    max_poll_s: float
    max_results: int
    streams: bool
    """Whether responses may be streamed. API Gateway and some proxies do not support it."""
    idle_timeout_s: float
    """Timeout of the embedded server for idle connections and for receiving a request."""
    max_connections: int
    """Maximum number of connections of the embedded server. The operating system may allow fewer."""
    wait_complete_s: float
    """How long after its end the feed of a push job shows events. After that it shows the summary."""
    keep_alive_s: float
    """Interval of keep-alive comments in a stream without events."""
    org_feed_expiration_s: float
    """How long the events of an organization's push jobs can be read again."""
    clean_timeout_s: float
    """How long a job may be silent before it is cleaned."""
    ingest: IngestSettings
    outbox_queue_url: str
    delivery_retry_s: float
    """How long a failing delivery is retried before it is parked."""
    smtp_url: str
    """Mail server. If empty, mail is written to a maildir in the data directory."""
    mail_from: str
    mail_title: str
    cors_origins: frozenset[str]
    """Origins whose web pages may use the API. `*` for all."""
    slack_hosts: tuple[str, ...]
    """Hosts that webhooks may use."""
    webhook_hosts: tuple[str, ...]
    """Hosts of webhooks that may have private addresses and need no encryption."""
    event_buses: tuple[str, ...]
    """On AWS: ARNs of the event buses that observers may send to."""
    templates_path: Path | None
    """Directory of templates that override the built-in ones."""
    public_url: str
    """URL of the API for people. Links in messages start with it."""
    time_zone: str
    time_format: str
    observers_file: Path
    """Observers that are configured at every start."""
    retention_s: float | None
    """Events older than this are hidden and deleted. None: keep them."""
    retention_events: int | None
    """Number of latest events that are kept. None: keep all."""
    exports: ExportSettings
    verifies_tokens: bool
    """Whether this function verifies tokens. Otherwise the authorizer of the gateway has done it."""
    jwt_key: str
    """HS256 key of local tokens. Empty if an issuer signs them."""
    oidc_issuer: str
    oidc_audience: str
    jwks_url: str
    """URL of the issuer's keys. By default it is taken from the discovery document."""
    org_claim: str
    groups_claim: str
    groups: Groups

    @property
    def stored_s(self) -> float | None:
        """After this time DynamoDB may delete a commit. Views that are rebuilt need its idempotency key until then."""
        return None if self.retention_s is None else max(self.retention_s, RECEIPT_STORED_S)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Some defaults differ on Lambda, for example the store."""
        get = environment.get
        function = get("AWS_LAMBDA_FUNCTION_NAME") or ""
        on_lambda = bool(function)
        return cls(
            store=get("STORE") or ("dynamodb" if on_lambda else "sqlite"),
            is_hub=get("HUB") == "yes",
            aws_client=get("AWS_CLIENT") or "",
            function=function,
            stack=get("STACK") or "",
            tracing=get("TRACING") == "on",
            data_dir=Path(get("DATA_DIR") or "data"),
            private_data=get("PRIVATE_DATA") != "no",
            allow_old_sqlite=get("ALLOW_OLD_SQLITE") == "yes",
            log_table=get("LOG_TABLE") or "annals-log",
            views_table=get("VIEWS_TABLE") or "annals-views",
            max_poll_s=float(get("LONGEST_POLL") or (25 if on_lambda or get("STREAMS") == "no" else 3600)),
            max_results=int(get("MOST_RESULTS") or 4096),
            streams=(get("STREAMS") or ("no" if on_lambda else "yes")) != "no",
            idle_timeout_s=max(durations.parse(get("IDLE_TIME") or 75), 0.1),
            max_connections=int(get("MOST_CONNECTIONS") or 20_000),
            wait_complete_s=durations.parse(get("WAIT_COMPLETE_TIME") or 5),
            keep_alive_s=max(durations.parse(get("KEEP_ALIVE_TIME") or 15), 0.1),
            org_feed_expiration_s=durations.parse(get("ORG_FEED_EXPIRATION") or 60),
            clean_timeout_s=durations.parse(get("CLEAN_TIMEOUT") or 3600),
            ingest=IngestSettings.from_environment(environment),
            outbox_queue_url=get("OUTBOX_QUEUE_URL") or "",
            delivery_retry_s=durations.parse(get("DELIVERY_RETRY") or "P1D"),
            smtp_url=get("SMTP_URL") or "",
            mail_from=get("MAIL_FROM") or "",
            mail_title=get("MAIL_TITLE") or "Annals",
            cors_origins=frozenset(origin.rstrip("/") for origin in _names(get("CORS_ORIGINS") or "")),
            slack_hosts=tuple(sorted(_names(get("SLACK_HOSTS") or "hooks.slack.com"))),
            webhook_hosts=tuple(sorted(_names(get("WEBHOOK_HOSTS") or ""))),
            event_buses=tuple(sorted(_names(get("EVENT_BUSES") or ""))),
            templates_path=Path(get("TEMPLATES_PATH") or "") if get("TEMPLATES_PATH") else None,
            public_url=get("PUBLIC_URL") or "",
            time_zone=get("TIME_ZONE") or "UTC",
            time_format=get("TIME_FORMAT") or "%Y-%m-%d %H:%M:%S %Z",
            observers_file=Path(get("OBSERVERS_FILE") or "observers.yaml"),
            retention_s=durations.parse(get("RETENTION")) if get("RETENTION") else None,
            retention_events=int(get("RETENTION_EVENTS") or 0) or None,
            exports=ExportSettings.from_environment(environment),
            verifies_tokens=get("TOKEN_VERIFICATION") == "functions",
            jwt_key=get("JWT_KEY") or "",
            oidc_issuer=get("OIDC_ISSUER") or "",
            oidc_audience=get("OIDC_AUDIENCE") or "",
            jwks_url=get("JWKS_URL") or "",
            org_claim=get("ORG_CLAIM") or "org",
            groups_claim=get("GROUPS_CLAIM") or "groups",
            groups=Groups(
                publishers=_names(get("PUBLISHERS") or "publishers") | {"pushy_job_writers"},
                readers=_names(get("READERS") or "readers") | {"pushy_job_readers", "pushy_jobs_readers"},
                admins=_names(get("ADMINS") or "admins"),
            ),
        )


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())
