"""The Spark session and the JVM it runs in."""
