"""Jobs of Spark that turn exports of the log into a history, and the history into reports; here and on Glue.

They are another runtime than the server: nothing here imports its code.
"""
