"""Training: configs, batches, losses and the Lightning module. Needs the extra `train`."""
