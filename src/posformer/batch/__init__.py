"""Recognition of many files."""
