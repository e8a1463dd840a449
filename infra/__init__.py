"""What Annals runs on."""
