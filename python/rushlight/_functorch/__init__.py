"""The functional transforms: vmap.py batches functions, transforms.py differentiates them."""
