"""What parameters mean, in words; their types are the models' matter."""

from collections.abc import Mapping

QUERY: Mapping[str, str] = {
    "after": "The position after which to read: an `eventId`. Without it, from the first event that is kept.",
    "timeout": "How long to wait for a first event: `60`, `0.5s`, `1h2m3s` or ISO-8601. A stream ends after so long.",
    "limit": "At most so many; of a feed, negative: the newest first.",
    "delay": "How long to wait for more, if the first event had to be waited for.",
    "tornOlder": "Answer `Torn` if the first event is older than this.",
    "heartbeat": "Of a stream: an empty line or a comment whenever nothing has come for so long.",
    "types": "Patterns of types, such as `job/finish/*`: `?` stands for one subtype, a final `*` for any number.",
    "keys": "Only events with one of these keys.",
    "return": "What to answer: an overview such as `OrderOverview`, event types such as `OrderEvent` or"
    " `OrderStepEnded,OrderFinished`, `OrderStatistics` or `OrderStatisticsChanged`.",
    "tFrom": "Not before this time.",
    "tTo": "Not after this time.",
    "sourceTFrom": "With a source's time that is not before this.",
    "sourceTTo": "With a source's time that is not after this.",
    "order": "By time rising or falling.",
    "orderBy": "Which time that is.",
    "maxResults": "At most so many; never more than 4,096.",
    "lastEventId": "Go on after this event, written `server.session.instance`.",
    "brief": "Whether to list objects in brief, the latest change first.",
    "search": "Of a list in brief: only what has this text in its path or its label.",
    "state": "Of a list in brief: only what is in this state.",
    "at": "One object as it was right after this `eventId`.",
    "ticket": "What the link to a report has; it is good for a minute.",
    "server": "The number of a log, if not that of the organization meant.",
}

HEADERS: Mapping[str, str] = {
    "X-Organization": "The organization meant, if not the first of the token.",
    "Idempotency-Key": "A repeat with the same key within 24 hours gets the first answer; nothing is written.",
    "Prefer": "`return=minimal`: the answer has no events, only the `eventId` of the last; they are numbered in a row.",
    "Last-Event-ID": "The id of the last server-sent event that the client has; it takes the place of `after`.",
    "If-None-Match": "The ETag of what the client has.",
}

PATHS: Mapping[str, str] = {
    "collection": "A collection of objects.",
    "job": "The id of a push job.",
    "name": "The name of an observer.",
    "number": "The id of a job or of a set of jobs.",
    "org": "The name of an organization; the token has to name it.",
    "path": "Which objects: `a/b` is one, `a/` all in and below a folder, `a/*` all just in it; `|` between several.",
    "console path": "The name of a file.",
    "reports name": "The name of a report.",
    "user": "The user's name, as tokens have it in `sub`.",
}

TAGS: Mapping[str, str] = {
    "events": "Append events, and follow them.",
    "queries": "Hat's three queries. `latest` and `timeseries` span all organizations of the token, unless"
    " X-Organization names one.",
    "jobscheduler": "JobScheduler's snapshots, events and statistics.",
    "objects": "Snapshots of whatever events are about: exactly the state at their `eventId`.",
    "push jobs": "The feeds of push jobs, and the jobs themselves.",
    "observers": "Who is told about which events, and what they were told.",
    "reports": "The pages that Spark makes of the history.",
    "console": "The page for people, the files it is made of, and who they are.",
    "installation": "Organizations, and how the installation is.",
}

PROBLEMS: Mapping[int, str] = {
    400: "The request breaks a rule: `detail` says which, and what is right. Unknown parameters and fields are wrong.",
    401: "There is no valid token.",
    403: "The caller lacks the organization or the group.",
    404: "What the request names does not exist, or the organization was not created yet.",
    406: "This is not to be had in a format that `Accept` allows.",
    409: "An event matches the append condition; `eventId` says which. Nothing was written.",
    413: "The request is beyond a limit: 1,000 events, 350 KB of events. Nothing was written.",
    415: "The body is not JSON.",
    422: "The `Idempotency-Key` came with another request before. Nothing was written.",
    500: "Something went wrong here; it has been logged.",
    502: "A channel did not take a message.",
    503: "Try again, with the same `Idempotency-Key` if there was one.",
}
