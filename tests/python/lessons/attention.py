"""nn.Transformer and MultiheadAttention: masks, padding, batch first, scaled dot products, decoding step by step."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)
mha = nn.MultiheadAttention(8, 2, batch_first=True)
x, memory = torch.randn(2, 4, 8), torch.randn(2, 5, 8)
pad = torch.tensor([[False, False, False, True, True], [False] * 5])
out, weights = mha(x, memory, memory, key_padding_mask=pad)
print(out.shape, weights[0], f"{out.sum().item():.4f}")
out, weights = mha(x, x, x, attn_mask=nn.Transformer.generate_square_subsequent_mask(4), average_attn_weights=False, is_causal=True)
print(weights.shape, weights[0, 0], mha(x, x, x, need_weights=False)[1])
wide = nn.MultiheadAttention(8, 2, kdim=3, vdim=5, add_bias_kv=True, add_zero_attn=True)
print([n for n, _ in wide.named_parameters()], wide(torch.ones(2, 1, 8), torch.ones(3, 1, 3), torch.ones(3, 1, 5))[1].shape)
q = torch.randn(1, 2, 3, 4)
print(F.scaled_dot_product_attention(q, q, q, is_causal=True)[0, 0], torch.allclose(F.scaled_dot_product_attention(q, q, q), torch.softmax(q @ q.transpose(-1, -2) / 2, -1) @ q, atol=1e-6))
model = nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16, dropout=0.0, batch_first=True)
opt = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(6):
    mask = model.generate_square_subsequent_mask(4)
    y = model(memory, x, tgt_mask=mask, src_key_padding_mask=pad, memory_key_padding_mask=pad, tgt_is_causal=True)
    loss = (y - x.roll(-1, 1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, f"{loss.item():.4f}")
model.eval()
with torch.no_grad():
    enc = model.encoder(memory, src_key_padding_mask=pad)
    so_far = torch.zeros(2, 1, 8)
    for _ in range(3):
        so_far = torch.cat([so_far, model.decoder(so_far, enc, memory_key_padding_mask=pad)[:, -1:]], 1)
    print(so_far[:, -1, :3])
layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True, batch_first=True, dropout=0.0)
encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False)
print(f"{encoder(x, mask=torch.zeros(4, 4)).sum().item():.3f}", sum(p.numel() for p in encoder.parameters()))
torch.manual_seed(22)
layer.train()
layer.dropout1.p = 0.5
print(f"{layer(x).abs().sum().item():.3f}")
