"""Apprise, a library that knows about 180 services. It runs in a process of its own for each message.

The process may only connect to public addresses and to hosts in WEBHOOK_HOSTS, and may neither read files nor start
programs, because the users who configure observers choose the URLs. It has a deadline and a memory limit, and its own
environment: no proxies, no keys of this installation. Apprise's log, which contains tokens, stays in it.
"""
