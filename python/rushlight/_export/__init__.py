"""Private parts of torch.export."""
