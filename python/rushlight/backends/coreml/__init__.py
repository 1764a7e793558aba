"""torch.backends.coreml"""
