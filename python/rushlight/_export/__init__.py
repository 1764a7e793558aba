"""Parts of torch.export that other packages reach into."""
