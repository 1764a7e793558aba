"""torch.backends.xnnpack: a library for phones, which is not used."""
enabled = False
