"""Photographs and scans: decoding, page clean-up, line splitting."""
