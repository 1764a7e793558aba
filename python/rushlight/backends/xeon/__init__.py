"""torch.backends.xeon"""
