"""The layout of exports, on disk and in S3."""
