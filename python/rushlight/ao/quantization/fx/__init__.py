"""What graph mode of quantization is made of; quantize_fx has its entries."""
