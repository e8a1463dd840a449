"""Descriptions of parameters, headers, tags and problems. The models state their types."""

from collections.abc import Mapping

QUERY: Mapping[str, str] = {
    "after": "Read on after this `eventId`, or in other lists after the last entry of the previous page.",
    "afterPosition": "Read events after this `position`. It replaces `after`.",
    "before": "With a negative limit, and in the list of reports: read events before this `eventId`. Continue with that"
    " of the last event, or that of an empty page if `moreFollows`.",
    "timeout": "How long to wait for a first event: `60`, `0.5s`, `1h2m3s` or ISO-8601. A stream ends after this time.",
    "limit": "Maximum number of results. In a feed, a negative limit returns the newest events first, without waiting."
    " With a limit, a"
    " snapshot has pages, and a page may have fewer results.",
    "cursor": "Continue a snapshot or a list: the `cursor` of the previous page, with the same path. All pages of a"
    " snapshot are as of the `eventId` of the first one.",
    "delay": "How long to collect more events after a first event that the request had to wait for.",
    "tornOlder": "Return `Torn` if the first event is older than this.",
    "heartbeat": "In a stream: send an empty line or a comment whenever nothing was sent for this long.",
    "types": "Patterns of types, such as `job/finish/*`: `?` stands for one subtype, a final `*` for any number.",
    "keys": "Return only events with one of these keys.",
    "tags": "Return only events with all of these tags.",
    "return": "What to return: an overview such as `OrderOverview`, event types such as `OrderEvent` or"
    " `OrderStepEnded,OrderFinished`, `OrderStatistics` or `OrderStatisticsChanged`.",
    "tFrom": "The earliest time.",
    "tTo": "The latest time.",
    "sourceTFrom": "The earliest source timestamp.",
    "sourceTTo": "The latest source timestamp.",
    "order": "Whether times ascend or descend.",
    "orderBy": "The time to sort by.",
    "maxResults": "Maximum number of results, at most 4,096.",
    "lastEventId": "Continue after this event, written `server.session.instance`.",
    "brief": "Whether to return a list of summaries, the most recently changed objects first.",
    "search": "In lists and with `brief=yes`: return only objects with this text in their path or label.",
    "state": "In lists and with `brief=yes`: return only objects in this state.",
    "result": "In lists and with `brief=yes`: return only objects that ended with this result, or job types whose last"
    " run did.",
    "type": "With `brief=yes`: return only jobs of this type.",
    "node": "With `brief=yes`: return only objects on this node. In a ping: the node of the job. Default: any node for"
    " an open run, and `ping` for a new one.",
    "rid": "The client's id of the run, a UUID: pings with the same one are about the same run.",
    "create": "`1`: the name may be new. Otherwise there must have been a job of this type.",
    "author": "With `brief=yes`: return only jobs and job sets with this `props.author`, or push jobs of this user.",
    "since": "With `brief=yes`: return only objects that last changed at or after this time.",
    "until": "With `brief=yes`: return only objects that last changed before this time.",
    "q": "With `brief=yes`: return only objects that contain all these words, in their path, label, parameters, message"
    " or other texts. A page of a large collection ends after two seconds of search, also without any match.",
    "at": "Return one object as it was right after this `eventId`.",
    "ticket": "The ticket in the link to a report. It is valid for one minute.",
    "event": "The event, written `server.session.instance`.",
    "eventId": "The `eventId` of the event. It replaces `event`.",
    "server": "The number of the log. Default: the log of the selected organization.",
}

HEADERS: Mapping[str, str] = {
    "X-Organization": "The organization to use. Default: the first one in the token.",
    "Idempotency-Key": "Within 24 hours, a repeated request with the same key returns the first result"
    " and writes nothing. UUIDs of version 7, made just before the first try, are the fastest on AWS.",
    "Prefer": "`return=minimal`: the response contains no events, only the `eventId` of the last one."
    " The events are numbered consecutively.",
    "Last-Event-ID": "The id of the last server-sent event that the client received. It replaces `after`.",
    "If-None-Match": "The ETag of the client's copy.",
}

PATHS: Mapping[str, str] = {
    "collection": "A collection of objects.",
    "job": "The id of a push job.",
    "job_type": "The type of the jobs.",
    "name": "The name of an observer.",
    "expectations name": "The name of an expectation.",
    "number": "The id of a job or of a job set.",
    "org": "The name of an organization that the token contains.",
    "path": "Which objects: `a/b` is one object, `a/` all objects in and below a folder, `a/*` all"
    " objects directly in it, `|` separates several.",
    "console path": "The name of a file.",
    "reports name": "The name of a report.",
    "silence": "The id of a silence.",
    "user": "The user's name, as in the token's `sub`.",
    "pings key": "The text of a ping key.",
    "pings name": "The type of the job.",
    "ping keys name": "The name of a ping key.",
    "signal": "`start`, `fail`, `log`, or an exit status from 0 to 255.",
}
"""By parameter name, or by tag and parameter name."""

TAGS: Mapping[str, str] = {
    "events": "Append events, and follow them.",
    "queries": "Hat's three queries. `latest` and `timeseries` span all organizations of the token, unless"
    " X-Organization names one.",
    "JobScheduler": "JobScheduler's snapshots, events and statistics.",
    "objects": "Snapshots of the objects that events are about. A snapshot is exact as of its `eventId`.",
    "push jobs": "The feeds of push jobs, and the jobs themselves.",
    "observers": "Rules that notify people of events, their deliveries, silences, and the inbox.",
    "expectations": "When jobs should run, and for how long. What does not happen as expected becomes an event.",
    "pings": "URLs for jobs that only fetch a URL, as on Healthchecks.io.",
    "ping keys": "Keys in the URLs of pings.",
    "reports": "The report pages that Spark creates from the history.",
    "console": "The web console, its files, and the signed-in user.",
    "installation": "Organizations, and the status of the installation.",
}

PROBLEMS: Mapping[int, str] = {
    400: "The request is invalid. `detail` states the rule that it breaks. Unknown parameters and fields are errors.",
    401: "The token is missing or invalid.",
    403: "The caller is not in the organization or lacks the group.",
    404: "The requested object does not exist, or the organization has not been created.",
    406: "The response is not available in a format that `Accept` allows.",
    409: "An event matches the append condition, and `eventId` identifies it, or the name is taken."
    " Nothing was written.",
    413: "The request exceeds a limit: 1,000 events, or 350 KB of events. Nothing was written.",
    415: "The body is not JSON, or is encoded.",
    422: "The `Idempotency-Key` was already used with a different request. Nothing was written.",
    500: "Internal error. The server logged the details.",
    502: "A notification channel did not accept a message.",
    503: "The service is temporarily unavailable. Retry, with the same `Idempotency-Key` if there was one.",
}
