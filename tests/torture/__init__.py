"""The proof that nothing is lost, doubled, reordered or skipped, whatever breaks."""
