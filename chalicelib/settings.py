"""Settings, all from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from chalicelib.domain import durations
from chalicelib.domain.organizations.groups import Groups


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Where the log is exported to, and what becomes of it there."""

    directory: Path
    """On this machine."""
    table_arn: str
    """On AWS: the log's table, and where in S3 its exports go."""
    bucket: str
    prefix: str
    lake_url: str
    """Where the history is."""
    history_job: str
    reports_job: str
    report_url: str
    """Where people find the report's page."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """What the environment says."""
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
class Settings:
    """How this process is to run."""

    store: str
    """`sqlite` or `dynamodb`."""
    function: str
    """The name of the Lambda function that this is; empty if it is none."""
    tracing: bool
    """Whether a Lambda function tells X-Ray what it does."""
    data_dir: Path
    log_table: str
    views_table: str
    longest_poll_s: float
    most_results: int
    streams: bool
    """Whether an answer may come piece by piece; API Gateway cannot do that, nor can some proxies."""
    idle_s: float
    """So long a client of the embedded server may say nothing, or take for a request."""
    most_connections: int
    """So many clients the embedded server has at once, if the machine lets it."""
    wait_complete_s: float
    """So long after its end a push job's feed shows its events; then its summary."""
    keep_alive_s: float
    """A stream without an event for so long gets a comment, so that nobody thinks it dead."""
    org_feed_expiration_s: float
    """So long the events of an organization's push jobs can be asked for again."""
    clean_timeout_s: float
    """So long a job may be silent before it is cleaned."""
    outbox_queue_url: str
    smtp_url: str
    """Where mail goes; empty: into a maildir in the data directory."""
    mail_from: str
    mail_title: str
    slack_hosts: tuple[str, ...]
    """The only hosts that webhooks may be at."""
    templates_path: Path | None
    """Where templates are that take the place of ours."""
    public_url: str
    """Where people find the API; links in messages begin with it."""
    time_zone: str
    time_format: str
    observers_file: Path
    """Observers that are configured at every start."""
    retention_s: float | None
    """Events older than this are forgotten; None: never."""
    retention_events: int | None
    """All but so many of the latest are forgotten; None: none."""
    exports: ExportSettings
    jwt_key: str
    """The HS256 key of local tokens; empty if an issuer signs them."""
    oidc_issuer: str
    oidc_audience: str
    jwks_url: str
    """Where the issuer's keys are; by default what its discovery document says."""
    org_claim: str
    groups_claim: str
    groups: Groups

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """What the environment says; on Lambda the defaults are DynamoDB's."""
        get = environment.get
        function = get("AWS_LAMBDA_FUNCTION_NAME") or ""
        on_lambda = bool(function)
        return cls(
            store=get("STORE") or ("dynamodb" if on_lambda else "sqlite"),
            function=function,
            tracing=get("TRACING") == "on",
            data_dir=Path(get("DATA_DIR") or "data"),
            log_table=get("LOG_TABLE") or "annals-log",
            views_table=get("VIEWS_TABLE") or "annals-views",
            longest_poll_s=float(get("LONGEST_POLL") or (25 if on_lambda or get("STREAMS") == "no" else 3600)),
            most_results=int(get("MOST_RESULTS") or 4096),
            streams=(get("STREAMS") or ("no" if on_lambda else "yes")) != "no",
            idle_s=max(durations.parse(get("IDLE_TIME") or 75), 0.1),
            most_connections=int(get("MOST_CONNECTIONS") or 20_000),
            wait_complete_s=durations.parse(get("WAIT_COMPLETE_TIME") or 5),
            keep_alive_s=max(durations.parse(get("KEEP_ALIVE_TIME") or 15), 0.1),
            org_feed_expiration_s=durations.parse(get("ORG_FEED_EXPIRATION") or 60),
            clean_timeout_s=durations.parse(get("CLEAN_TIMEOUT") or 3600),
            outbox_queue_url=get("OUTBOX_QUEUE_URL") or "",
            smtp_url=get("SMTP_URL") or "",
            mail_from=get("MAIL_FROM") or "",
            mail_title=get("MAIL_TITLE") or "AnyJob",
            slack_hosts=tuple(sorted(_names(get("SLACK_HOSTS") or "hooks.slack.com"))),
            templates_path=Path(get("TEMPLATES_PATH") or "") if get("TEMPLATES_PATH") else None,
            public_url=get("PUBLIC_URL") or "",
            time_zone=get("TIME_ZONE") or "UTC",
            time_format=get("TIME_FORMAT") or "%Y-%m-%d %H:%M:%S %Z",
            observers_file=Path(get("OBSERVERS_FILE") or "observers.yaml"),
            retention_s=durations.parse(get("RETENTION")) if get("RETENTION") else None,
            retention_events=int(get("RETENTION_EVENTS") or 0) or None,
            exports=ExportSettings.from_environment(environment),
            jwt_key=get("JWT_KEY") or "",
            oidc_issuer=get("OIDC_ISSUER") or "",
            oidc_audience=get("OIDC_AUDIENCE") or "",
            jwks_url=get("JWKS_URL") or "",
            org_claim=get("ORG_CLAIM") or "org",
            groups_claim=get("GROUPS_CLAIM") or "groups",
            groups=Groups(
                publishers=_names(get("PUBLISHERS") or "publishers") | {"pushy_job_writers"},
                readers=_names(get("READERS") or "readers") | {"pushy_job_readers"},
                admins=_names(get("ADMINS") or "admins"),
            ),
        )


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())
