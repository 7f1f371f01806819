"""What runs a model for the search; the PyTorch part is imported by name, for it needs PyTorch."""
