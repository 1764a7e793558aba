"""torch.numa: binding of processes to memory."""
