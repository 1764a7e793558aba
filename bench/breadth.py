"""What the other programs leave out: layers and operations of middle sizes, odd dimensions, other types. In us per run."""
import torch
import torch.nn.functional as F
from torch import nn
from clock import run

torch.manual_seed(1)


def back(fn, *tensors):
    """A forward and a backward of fn."""
    leaves = [t.clone().requires_grad_() for t in tensors]

    def step():
        for leaf in leaves:
            leaf.grad = None
        y = fn(*leaves)
        (y[0] if isinstance(y, tuple) else y).sum().backward()
    return step


def trained(module, *x):
    """A forward and a backward of a module by its parameters and its first input."""
    first = x[0].clone().requires_grad_(x[0].is_floating_point())
    parameters = list(module.parameters())

    def step():
        for p in parameters:
            p.grad = None
        y = module(first, *x[1:])
        (y[0] if isinstance(y, tuple) else y).sum().backward()
    return step


def stepping(make, count, size):
    """An optimizer's step over many parameters."""
    parameters = [torch.randn(size).requires_grad_() for _ in range(count)]
    for p in parameters:
        p.grad = torch.randn(size)
    optimizer = make(parameters)
    return optimizer.step


R = torch.randn
tokens, wide = R(8, 197, 384), R(8, 197, 1536)
heads = [R(8, 6, 197, 64) for _ in range(3)]
mask = R(197, 197) > 0
long_rows, short_rows, tall = R(64, 50_000), R(50_000, 64), R(100_000, 33)
image, small, volume, signal = R(8, 64, 28, 28), R(8, 128, 14, 14), R(2, 16, 16, 32, 32), R(16, 64, 1000)
last = image.to(memory_format=torch.channels_last)
w3, w1 = R(64, 64, 3, 3), R(256, 64, 1, 1)
w3_last = w3.to(memory_format=torch.channels_last)
grouped, deep = R(64, 16, 3, 3), R(128, 1, 3, 3)
up, w3d, w1d, w7, rgb = R(64, 32, 4, 4), R(32, 16, 3, 3, 3), R(128, 64, 5), R(64, 3, 7, 7), R(4, 3, 224, 224)
scale, shift, mean, var = R(64), R(64), torch.zeros(64), torch.ones(64)
vocabulary = R(30_000, 128)
words, bags = torch.randint(30_000, (4096,)), torch.randint(30_000, (256, 20))
cube, matrix, vector = R(128, 129, 130), R(1000, 1000), R(1_000_000)
integers, bits = torch.randint(1000, (1_000_000,)), torch.randn(1_000_000) > 0
places, rows = torch.randint(1_000_000, (100_000,)), torch.randint(1000, (20_000,))
scatter_to = torch.randint(1000, (1000, 1000))
parts = [R(64, 32) for _ in range(200)]
doubles, halves, bf = matrix.double(), matrix.half(), matrix.bfloat16()
b1, b2 = R(32, 96, 80), R(32, 80, 112)
x4, y4 = R(8, 12, 64, 32), R(8, 12, 32, 64)
lstm, gru, rnn = nn.LSTM(64, 128, batch_first=True), nn.GRU(64, 128, batch_first=True), nn.RNN(64, 128, batch_first=True)
sequence = R(16, 50, 64)
encoder = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
attention = nn.MultiheadAttention(128, 4, batch_first=True)
phrases = R(16, 64, 128)
boxes = R(1, 64, 64, 64)
grid = torch.rand(4, 64, 64, 2) * 2 - 1
labels, logits = torch.randint(1000, (4096,)), R(4096, 1000)
left, right = R(500, 64), R(600, 64)
spectrum = R(256, 1000)
complexes = torch.view_as_complex(R(1000, 1000, 2))

CASES = [
    # attention, transformers
    ("attention 8x6x197x64", "F.scaled_dot_product_attention(*heads)"),
    ("attention 8x6x197x64, forward and backward", "attention_back()"),
    ("attention with a mask", "F.scaled_dot_product_attention(*heads, attn_mask=mask)"),
    ("attention, bfloat16", "F.scaled_dot_product_attention(*heads_bf)"),
    ("TransformerEncoderLayer, training", "encoder_step()"),
    ("MultiheadAttention", "attention(phrases, phrases, phrases)"),
    ("linear 1576x384x1536", "F.linear(tokens, w_up, b_up)"),
    ("linear 1576x1536x384, forward and backward", "linear_back()"),
    ("layer_norm 384, forward and backward", "ln_back()"),
    ("gelu, forward and backward", "gelu_back()"),
    ("silu", "F.silu(wide)"), ("mish", "F.mish(wide)"), ("softplus", "F.softplus(wide)"), ("elu", "F.elu(wide)"),
    ("leaky_relu", "F.leaky_relu(wide)"), ("hardswish", "F.hardswish(wide)"), ("dropout", "F.dropout(wide, 0.1)"),
    ("rms_norm 384", "F.rms_norm(tokens, (384,))"),
    ("group_norm", "F.group_norm(image, 8, scale, shift)"), ("group_norm, forward and backward", "gn_back()"),
    ("instance_norm", "F.instance_norm(image)"), ("batch_norm 14x14, training", "bn_step()"),
    ("batch_norm 4x4, training", "bn4_step()"),
    ("batch_norm, inference", "F.batch_norm(image, mean, var, scale, shift)"),
    # softmax and losses
    ("softmax of 64 long rows", "long_rows.softmax(1)"), ("softmax of short rows", "short_rows.softmax(1)"),
    ("softmax of columns", "matrix.softmax(0)"), ("log_softmax of 33", "tall.log_softmax(1)"),
    ("logsumexp", "long_rows.logsumexp(1)"),
    ("cross_entropy, forward and backward", "ce_back()"), ("mse_loss", "F.mse_loss(wide, wide)"),
    ("bce_with_logits", "F.binary_cross_entropy_with_logits(matrix, target)"),
    ("cosine_similarity", "F.cosine_similarity(logits, logits)"),
    # convolutions
    ("conv 3x3 grouped", "F.conv2d(image, grouped, padding=1, groups=4)"),
    ("conv 3x3 grouped, forward and backward", "grouped_back()"),
    ("conv 3x3 depthwise 14x14, forward and backward", "deep_back()"), ("conv 1x1", "F.conv2d(image, w1)"),
    ("conv 1x1, forward and backward", "w1_back()"),
    ("conv 7x7 of 3 channels, stride 2", "F.conv2d(rgb, w7, stride=2, padding=3)"),
    ("conv 7x7 of 3 channels, forward and backward", "w7_back()"),
    ("conv 3x3 channels last", "F.conv2d(last, w3_last, padding=1)"),
    ("conv 3x3 channels last, forward and backward", "last_back()"),
    ("conv 3x3 dilated", "F.conv2d(image, w3, padding=2, dilation=2)"),
    ("conv1d 5", "F.conv1d(signal, w1d, padding=2)"), ("conv1d 5, forward and backward", "conv1d_back()"),
    ("conv3d 3x3x3", "F.conv3d(volume, w3d, padding=1)"), ("conv3d 3x3x3, forward and backward", "conv3d_back()"),
    ("conv_transpose2d 4x4", "F.conv_transpose2d(image, up, stride=2, padding=1)"),
    ("conv_transpose2d 4x4, forward and backward", "up_back()"),
    ("conv 3x3, float64", "F.conv2d(image64, w364, padding=1)"),
    ("conv 3x3, bfloat16", "F.conv2d(image_bf, w3_bf, padding=1)"),
    ("avg_pool2d 2", "F.avg_pool2d(image, 2)"), ("max_pool2d 3, forward and backward", "pool_back()"),
    ("adaptive_avg_pool2d 7", "F.adaptive_avg_pool2d(image, 7)"), ("max_pool2d channels last", "F.max_pool2d(last, 2)"),
    ("interpolate nearest", "F.interpolate(boxes, scale_factor=2)"),
    ("interpolate bilinear", "F.interpolate(boxes, scale_factor=2, mode='bilinear')"),
    ("interpolate bicubic", "F.interpolate(boxes, scale_factor=2, mode='bicubic')"),
    ("grid_sample", "F.grid_sample(boxes4, grid, align_corners=False)"),
    ("unfold", "F.unfold(image, 3, padding=1)"), ("pad reflect", "F.pad(image, (1, 1, 1, 1), mode='reflect')"),
    ("pixel_shuffle", "F.pixel_shuffle(image, 2)"), ("relu channels last", "F.relu(last)"),
    ("add channels last", "last + last"),
    # recurrent
    ("LSTM 64-128, 16 x 50", "lstm(sequence)"), ("LSTM 64-128, training", "lstm_step()"),
    ("GRU 64-128", "gru(sequence)"),
    ("GRU 64-128, training", "gru_step()"), ("RNN 64-128, training", "rnn_step()"),
    # lookup, scatter, index
    ("embedding, forward and backward", "emb_back()"), ("embedding_bag mean", "F.embedding_bag(bags, vocabulary)"),
    ("embedding_bag sum, forward and backward", "bag_back()"), ("one_hot", "F.one_hot(rows, 1000)"),
    ("gather", "matrix.gather(1, scatter_to)"),
    ("scatter", "matrix.clone().scatter_(1, scatter_to, matrix)"),
    ("scatter_add", "matrix.clone().scatter_add_(1, scatter_to, matrix)"),
    ("scatter_reduce amax", "matrix.clone().scatter_reduce_(1, scatter_to, matrix, 'amax')"), ("index_put", "put()"),
    ("index_put accumulate", "vector.clone().index_put_((places,), vector[:100_000], accumulate=True)"),
    ("index by places", "vector[places]"),
    ("index rows", "matrix[rows]"), ("index_select columns", "matrix.index_select(1, rows[:1000])"),
    ("take", "matrix.take(places)"),
    ("two indices", "matrix[rows, rows]"), ("masked_fill", "matrix.masked_fill(matrix > 0, 0)"),
    ("where", "torch.where(matrix > 0, matrix, -matrix)"),
    ("roll", "matrix.roll(3, 1)"), ("flip", "matrix.flip(1)"), ("tril", "matrix.tril()"),
    ("repeat", "matrix.repeat(2, 2)"),
    ("repeat_interleave", "matrix.repeat_interleave(2, 0)"), ("diagonal sum", "matrix.diagonal().sum()"),
    ("bucketize", "torch.bucketize(vector, edges)"),
    ("searchsorted", "torch.searchsorted(edges, vector)"), ("histc", "vector.histc(100)"),
    ("bincount", "integers.bincount()"),
    ("isin", "torch.isin(integers, some)"),
    # sort and scan
    ("sort rows", "matrix.sort(1)"), ("sort columns", "matrix.sort(0)"), ("argsort of integers", "integers.argsort()"),
    ("topk 100 of a million", "vector.topk(100)"),
    ("kthvalue", "vector.kthvalue(1000)"), ("median", "vector.median()"), ("median of rows", "matrix.median(1)"),
    ("quantile", "vector.quantile(0.3)"), ("mode", "small_ints.mode(1)"),
    ("unique with counts", "integers.unique(return_counts=True)"),
    ("unique_consecutive", "integers.unique_consecutive()"),
    ("cumsum of rows", "matrix.cumsum(1)"), ("cumsum of columns", "matrix.cumsum(0)"), ("cumprod", "matrix.cumprod(1)"),
    ("cummax", "matrix.cummax(1)"),
    ("logcumsumexp", "matrix.logcumsumexp(1)"), ("diff", "matrix.diff()"),
    # reductions
    ("sum of the middle of 128x129x130", "cube.sum(1)"), ("sum of both ends", "cube.sum((0, 2))"),
    ("mean of columns", "tall.mean(0)"), ("sum of 33 columns", "tall.sum(1)"),
    ("amax of the middle", "cube.amax(1)"), ("argmax of columns", "matrix.argmax(0)"),
    ("max of columns", "matrix.max(0)"), ("std of columns", "matrix.std(0)"), ("norm", "vector.norm()"),
    ("norm of rows", "matrix.norm(dim=1)"), ("1-norm of columns", "matrix.norm(1, 0)"),
    ("prod of rows", "matrix.prod(1)"), ("any", "bits.any()"), ("all of rows", "(matrix > -9).all(1)"),
    ("count_nonzero", "bits.count_nonzero()"),
    ("sum of integers", "integers.sum()"), ("sum of bools", "bits.sum()"), ("sum, float64", "doubles.sum()"),
    ("sum, float16", "halves.sum()"), ("sum of columns, bfloat16", "bf.sum(0)"),
    ("mean of rows, float64", "doubles.mean(1)"),
    ("aminmax", "vector.aminmax()"), ("allclose", "torch.allclose(matrix, matrix)"),
    ("equal", "torch.equal(matrix, same)"), ("var_mean", "torch.var_mean(matrix)"), ("cov", "torch.cov(left.t())"),
    # products
    ("32 products 96x80x112", "b1 @ b2"), ("96 products 64x32x64", "x4 @ y4"),
    ("transposed product 500x64x600", "left @ right.t()"), ("product 1000, float64", "doubles @ doubles"),
    ("product 1000, float16", "halves @ halves"), ("product of integers 128", "ints @ ints"),
    ("matrix times vector", "matrix @ vector[:1000]"), ("einsum bij,bjk", "torch.einsum('bij,bjk->bik', b1, b2)"),
    ("einsum bhqd,bhkd", "torch.einsum('bhqd,bhkd->bhqk', x4, x4)"),
    ("einsum ij,kj,kl", "torch.einsum('ij,kj,kl->il', left, right, right)"),
    ("outer", "torch.outer(vector[:2000], vector[:2000])"), ("cdist", "torch.cdist(left, right)"),
    ("cdist, 1-norm", "torch.cdist(left, right, 1.0)"), ("pdist, forward and backward", "pdist_back()"),
    ("product, complex", "complexes @ complexes"),
    ("kron", "torch.kron(left[:50, :20], right[:20, :20])"), ("bilinear", "F.bilinear(left, left, w_bi)"),
    ("tensordot", "torch.tensordot(cube, cube, ((0, 1), (0, 1)))"),
    ("addmm", "torch.addmm(matrix, matrix, matrix, beta=0.5, alpha=2)"), ("baddbmm", "torch.baddbmm(b3, b1, b2)"),
    # elementwise of other types, copies
    ("add, float16", "halves + halves"), ("mul, bfloat16", "bf * bf"), ("exp, bfloat16", "bf.exp()"),
    ("add of integers", "integers + integers"), ("floor divide integers", "integers // 7"), ("compare", "vector > 0"),
    ("and of bools", "bits & bits"), ("add, float64", "doubles + doubles"),
    ("exp, float64", "doubles.exp()"), ("sin, float64", "doubles.sin()"), ("complex exp", "complexes.exp()"),
    ("complex abs", "complexes.abs()"), ("atan2", "torch.atan2(matrix, matrix)"), ("pow 2", "matrix ** 2"),
    ("pow 3", "matrix ** 3"), ("sqrt of x*x + y*y", "(matrix * matrix + matrix * matrix).sqrt()"),
    ("clamp", "matrix.clamp(-1, 1)"), ("round", "matrix.round()"), ("abs", "matrix.abs()"), ("sign", "matrix.sign()"),
    ("lerp", "torch.lerp(matrix, same, 0.3)"), ("addcmul", "torch.addcmul(matrix, same, same)"),
    ("reciprocal", "matrix.reciprocal()"), ("rsqrt", "matrix.abs().rsqrt()"), ("erfinv", "half_range.erfinv()"),
    ("cosh", "matrix.cosh()"), ("acos", "half_range.acos()"), ("log1p", "matrix.abs().log1p()"),
    ("xlogy", "torch.xlogy(matrix, matrix.abs())"),
    ("column added", "matrix + matrix[:, :1]"), ("cube plus its middle", "cube + cube[:, :1]"),
    ("permuted copy", "cube.permute(2, 0, 1).contiguous()"),
    ("permuted 4d copy", "heads[0].transpose(1, 2).contiguous()"),
    ("to channels last", "image.contiguous(memory_format=torch.channels_last)"), ("to float16", "matrix.half()"),
    ("to bfloat16", "matrix.bfloat16()"), ("float16 to float", "halves.float()"),
    ("integers to float", "integers.float()"), ("float to integers", "vector.long()"),
    ("bools to float", "bits.float()"), ("clone", "matrix.clone()"), ("cat of 200", "torch.cat(parts)"),
    ("cat of 200, columns", "torch.cat(parts, 1)"), ("stack of 200", "torch.stack(parts)"),
    ("split and cat", "torch.cat(matrix.chunk(10, 1), 1)"), ("arange", "torch.arange(1_000_000)"),
    ("zeros", "torch.zeros(1000, 1000)"), ("full", "torch.full((1000, 1000), 2.0)"),
    ("linspace", "torch.linspace(0, 1, 1_000_000)"), ("eye", "torch.eye(1000)"),
    ("meshgrid", "torch.stack(torch.meshgrid(vector[:1000], vector[:1000], indexing='ij'))"),
    # random
    ("rand", "torch.rand(1_000_000)"), ("randint", "torch.randint(1000, (1_000_000,))"),
    ("randperm", "torch.randperm(1_000_000)"), ("bernoulli", "torch.bernoulli(chances)"),
    ("multinomial", "torch.multinomial(chances, 1000, True)"), ("exponential", "torch.empty(1_000_000).exponential_()"),
    ("normal, float64", "torch.randn(1_000_000, dtype=torch.float64)"),
    # linear algebra, Fourier
    ("inverse 256", "torch.linalg.inv(square)"), ("det 256", "torch.linalg.det(square)"),
    ("qr 256", "torch.linalg.qr(square)"), ("eigh 256", "torch.linalg.eigh(symmetric)"),
    ("eig 128", "torch.linalg.eig(square[:128, :128])"), ("lstsq", "torch.linalg.lstsq(left, left[:, :8])"),
    ("solve 100 of 32", "torch.linalg.solve(many, many)"), ("cholesky 100 of 32", "torch.linalg.cholesky(definite)"),
    ("matrix_exp 128", "torch.linalg.matrix_exp(square[:128, :128] / 16)"), ("pinv", "torch.linalg.pinv(left)"),
    ("svd of 50 of 16", "torch.linalg.svd(many[:50, :16, :16])"),
    ("fft of 256 rows", "torch.fft.fft(spectrum)"), ("rfft of 256 rows", "torch.fft.rfft(spectrum)"),
    ("fft2", "torch.fft.fft2(matrix)"), ("stft", "torch.stft(vector[:200_000], 512, return_complex=True)"),
    # optimizers
    ("SGD with momentum, 200 parameters", "sgd()"), ("Adam, 200 parameters", "adam()"),
    ("AdamW, 20 of 250,000", "adamw()"), ("RMSprop, 200 parameters", "rmsprop()"),
    ("Adagrad, 200 parameters", "adagrad()"), ("NAdam, 200 parameters", "nadam()"),
    ("clip_grad_norm", "nn.utils.clip_grad_norm_(clipped, 1.0)"),
]
NAMES = {**globals()}
NAMES.update(
    attention_back=back(F.scaled_dot_product_attention, *heads), heads_bf=[t.bfloat16() for t in heads],
    encoder_step=trained(encoder, phrases), w_up=R(1536, 384), b_up=R(1536),
    linear_back=back(F.linear, wide, R(384, 1536), R(384)),
    ln_back=back(lambda x, w, b: F.layer_norm(x, (384,), w, b), tokens, R(384), R(384)), gelu_back=back(F.gelu, wide),
    gn_back=back(lambda x, w, b: F.group_norm(x, 8, w, b), image, scale, shift),
    bn_step=trained(nn.BatchNorm2d(128), small), bn4_step=trained(nn.BatchNorm2d(512), R(16, 512, 4, 4)),
    ce_back=back(lambda x: F.cross_entropy(x, labels), logits), target=torch.rand(1000, 1000),
    grouped_back=back(lambda x, w: F.conv2d(x, w, padding=1, groups=4), image, grouped),
    deep_back=back(lambda x, w: F.conv2d(x, w, padding=1, groups=128), small, deep), w1_back=back(F.conv2d, image, w1),
    w7_back=back(lambda w: F.conv2d(rgb, w, stride=2, padding=3), w7),
    last_back=back(lambda x, w: F.conv2d(x, w, padding=1), last, w3_last),
    conv1d_back=back(lambda x, w: F.conv1d(x, w, padding=2), signal, w1d),
    conv3d_back=back(lambda x, w: F.conv3d(x, w, padding=1), volume, w3d),
    up_back=back(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), image, up), image64=image.double(),
    w364=w3.double(), image_bf=image.bfloat16(), w3_bf=w3.bfloat16(),
    pool_back=back(lambda x: F.max_pool2d(x, 3, 2, 1), image), boxes4=boxes.repeat(4, 1, 1, 1),
    lstm_step=trained(lstm, sequence), gru_step=trained(gru, sequence), rnn_step=trained(rnn, sequence),
    emb_back=back(lambda w: F.embedding(words, w), vocabulary),
    pdist_back=back(F.pdist, left),
    bag_back=back(lambda w: F.embedding_bag(bags, w, mode="sum"), vocabulary),
    put=lambda: vector.clone().__setitem__(places, 1.0), edges=torch.linspace(-3, 3, 1000),
    some=torch.arange(0, 1000, 7), small_ints=torch.randint(10, (1000, 1000)), ints=torch.randint(10, (128, 128)),
    w_bi=R(8, 64, 64), b3=R(32, 96, 112), same=matrix.clone(), half_range=torch.rand(1000, 1000) - 0.5,
    chances=torch.rand(1_000_000), square=R(256, 256), symmetric=(lambda a: a + a.t())(R(256, 256)),
    many=R(100, 32, 32) + 6 * torch.eye(32), definite=(lambda a: a @ a.mT + 32 * torch.eye(32))(R(100, 32, 32)),
    sgd=stepping(lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9), 200, (32, 32)),
    adam=stepping(lambda p: torch.optim.Adam(p), 200, (32, 32)),
    adamw=stepping(lambda p: torch.optim.AdamW(p), 20, (500, 500)),
    rmsprop=stepping(lambda p: torch.optim.RMSprop(p), 200, (32, 32)),
    adagrad=stepping(lambda p: torch.optim.Adagrad(p), 200, (32, 32)),
    nadam=stepping(lambda p: torch.optim.NAdam(p), 200, (32, 32)),
    clipped=(lambda ps: [setattr(p, "grad", torch.randn(32, 32)) or p for p in ps])([R(32, 32).requires_grad_() for _ in range(200)]))
run([(name, statement, None, "us") for name, statement in CASES], NAMES, 0.12)
