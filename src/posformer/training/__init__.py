"""Training: recipes, batches, losses and the Lightning module. Needs the extra `train`."""
