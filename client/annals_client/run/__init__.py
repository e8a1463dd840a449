"""`annals run`: run a command and report it as a job.

The command never waits for the report. Four actors share the work:

    main thread      starts the command, forwards signals, waits for its end (`command`, `signals`)
    relay threads    copy the command's output to the own stdout and stderr, and into a bounded buffer (`output`)
    recorder thread  writes the run's events to its folder in the spool (`recorder`, `lines`, `spooled_run`)
    sender process   sends the spooled runs to the server (`sender`, `spool`, `events`)

The modules that are imported before the command starts are `command`, `signals` and `process`. They import little.
"""
