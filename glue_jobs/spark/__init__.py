"""Sets up Spark and its JVM, and passes tables between tasks."""
