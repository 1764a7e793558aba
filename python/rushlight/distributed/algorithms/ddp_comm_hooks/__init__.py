"""How gradients are sent."""
