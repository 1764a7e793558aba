"""The checks of packages.py: run as a program under an interpreter in which `import torch` works.

Prints a JSON object a check: {name: [[shape, sum], ...]} of the tensors that came out, or {name: "error"}.
"""
import io
import json
import sys
import tempfile

import torch


def numbers(x):
    """[shape, sum of the absolute values] of every tensor in a result."""
    if isinstance(x, torch.Tensor):
        t = x.detach()
        if t.dtype.is_complex:
            t = t.abs()
        return [[list(t.shape), float(t.to(torch.float64).abs().sum())]]
    if isinstance(x, dict):
        x = [x[k] for k in sorted(x)]
    if isinstance(x, (list, tuple)):
        return [n for item in x for n in numbers(item)]
    if isinstance(x, (int, float, bool)):
        return [[[], float(x)]]
    return [[[len(x)] if hasattr(x, "__len__") else [], 0.0]]


def vision():
    import torchvision
    import torchvision.transforms as old
    import torchvision.transforms.v2 as new
    import torchvision.transforms.v2.functional as F
    from torchvision import tv_tensors
    mode = new.InterpolationMode
    u = (torch.rand(3, 40, 30) * 255).to(torch.uint8)
    f = torch.rand(2, 3, 40, 30)
    box = tv_tensors.BoundingBoxes([[1, 2, 10, 20]], format="XYXY", canvas_size=(40, 30))
    corners = [[0, 0], [29, 0], [29, 39], [0, 39]], [[2, 3], [27, 1], [25, 38], [3, 35]]
    for name, run in {
        "resize": lambda: [F.resize(u, [20, 20]), F.resize(f, [20, 25]), F.resize(u, [20], mode.NEAREST), F.resize(u, [20, 33], mode.BICUBIC)],
        "crop, flip, pad": lambda: [F.crop(u, 2, 3, 10, 11), F.center_crop(u, [50, 20]), F.horizontal_flip(u), F.vertical_flip(u),
                                    F.pad(u, [1, 2, 3, 4], padding_mode="reflect"), F.five_crop(u, [8, 8])],
        "normalize": lambda: F.normalize(f, [.5] * 3, [.2] * 3),
        "colour": lambda: [F.adjust_brightness(u, 1.3), F.adjust_contrast(u, .7), F.adjust_saturation(u, 1.7), F.adjust_hue(u, .1), F.adjust_gamma(u, .8),
                           F.rgb_to_grayscale(u), F.posterize(u, 3), F.solarize(u, 100), F.adjust_sharpness(u, 2.), F.autocontrast(u), F.equalize(u), F.invert(u)],
        "affine, rotate": lambda: [F.affine(u, 10, [2, 3], 1.1, [3, 4]), F.rotate(f, 30., expand=True), F.rotate(f, 30., mode.BILINEAR)],
        "perspective, elastic": lambda: [F.perspective(u, *corners), F.elastic(f, torch.full((1, 40, 30, 2), .02))],
        "blur, noise, erase": lambda: [F.gaussian_blur(u, [3, 5]), F.gaussian_noise(f), F.erase(u, 1, 2, 5, 5, torch.zeros(3, 5, 5, dtype=torch.uint8))],
        "pillow": lambda: [F.pil_to_tensor(F.to_pil_image(u)), old.ToTensor()(F.to_pil_image(u)), F.to_dtype(u, torch.float32, scale=True)],
        "compose": lambda: new.Compose([new.RandomResizedCrop(16), new.RandomHorizontalFlip(), new.ColorJitter(.2, .2, .2, .1),
                                        new.ToDtype(torch.float32, scale=True), new.Normalize([.5] * 3, [.5] * 3)])(u),
        "augment": lambda: [new.RandAugment()(u), new.AutoAugment()(u), new.TrivialAugmentWide()(u)],
        "augmix, mixup, cutmix": lambda: [new.AugMix()(u), new.MixUp(num_classes=3)(f, torch.tensor([0, 1])), new.CutMix(num_classes=3)(f, torch.tensor([0, 1]))],
        "boxes, masks": lambda: [new.RandomHorizontalFlip(p=1)(tv_tensors.Image(u), box), F.resize(box, [20, 20]),
                                 new.Resize(20)(tv_tensors.Mask(torch.ones(1, 40, 30, dtype=torch.uint8)))],
        "transforms, old": lambda: [old.RandomAffine(10)(u), old.Compose([old.RandomCrop(20), old.ToPILImage(), old.ToTensor()])(u)],
        "utils": lambda: [torchvision.utils.make_grid(f), torchvision.utils.draw_bounding_boxes(u, torch.tensor([[1, 2, 10, 20]]))],
        "io: png": lambda: [torchvision.io.decode_png(torchvision.io.encode_png(u)), torchvision.io.encode_png(u)[:8]],
        "io: jpeg": lambda: [torchvision.io.decode_jpeg(torchvision.io.encode_jpeg(u)), F.jpeg(u, 50)],
        "boxes": lambda: [torchvision.ops.box_iou(torch.tensor([[0., 0, 5, 5]]), torch.tensor([[1., 1, 6, 6]])), torchvision.ops.box_area(torch.tensor([[0., 0, 5, 5]])),
                          torchvision.ops.generalized_box_iou_loss(torch.tensor([[0., 0, 5, 5]]), torch.tensor([[1., 1, 6, 6]]))],
        "losses, layers": lambda: [torchvision.ops.sigmoid_focal_loss(f, f), torchvision.ops.stochastic_depth(f, .5, "row"), torchvision.ops.drop_block2d(f, .1, 3)],
        "FakeData": lambda: torchvision.datasets.FakeData(3, transform=old.ToTensor())[0],
    }.items():
        yield "torchvision: " + name, run
    x = torch.rand(2, 3, 64, 64)
    for name in ("resnet18", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "swin_t", "densenet121", "regnet_y_400mf", "shufflenet_v2_x0_5", "squeezenet1_1"):
        yield "torchvision: " + name, lambda name=name: getattr(torchvision.models, name)(weights=None).eval()(x)
    yield "torchvision: vit_b_16", lambda: torchvision.models.vit_b_16(image_size=32).eval()(torch.rand(1, 3, 32, 32))
    yield "torchvision: fcn_resnet50", lambda: torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None).eval()(x[:1])
    yield "torchvision: nms", lambda: torchvision.ops.nms(torch.tensor([[0., 0, 5, 5], [0, 0, 5, 4.9], [7, 7, 9, 9]]), torch.tensor([.5, .6, .1]), .5)


def audio():
    import torchaudio
    import torchaudio.functional as F
    import torchaudio.transforms as T
    w = torch.randn(1, 16000) * 0.1
    for name, run in {
        "spectrograms": lambda: [T.Spectrogram()(w), T.MelSpectrogram()(w), T.AmplitudeToDB()(T.MelSpectrogram()(w)), T.MelScale(n_stft=201)(T.Spectrogram()(w))],
        "MFCC, LFCC": lambda: [T.MFCC()(w), T.LFCC()(w), T.ComputeDeltas()(T.MFCC()(w)), T.SlidingWindowCmn()(T.MFCC()(w))],
        "GriffinLim": lambda: T.GriffinLim(n_iter=2, rand_init=False)(T.Spectrogram()(w)),
        "Resample": lambda: [T.Resample(16000, 8000)(w), T.Resample(16000, 22050)(w)],
        "MuLaw": lambda: T.MuLawDecoding()(T.MuLawEncoding()(w.clamp(-1, 1))),
        "stretch, masks": lambda: [T.TimeStretch(n_freq=201, fixed_rate=1.2)(T.Spectrogram(power=None)(w)), T.TimeMasking(10)(T.Spectrogram()(w)), T.FrequencyMasking(10)(T.Spectrogram()(w))],
        "fade, volume": lambda: [T.Fade(100, 100)(w), T.Vol(.5)(w), T.SpectralCentroid(16000)(w)],
        "PitchShift": lambda: T.PitchShift(16000, 2)(w),
        "filters": lambda: [F.lowpass_biquad(w, 16000, 1000.), F.equalizer_biquad(w, 16000, 1000., 3.), F.filtfilt(w, torch.tensor([1., .5]), torch.tensor([.5, .2]))],
        "effects": lambda: [F.phaser(w[:, :2000], 16000), F.flanger(w[:, :2000], 16000), F.overdrive(w[:, :2000])],
        "convolve": lambda: [F.convolve(w, w[:, :100]), F.fftconvolve(w, w[:, :100])],
        "loudness": lambda: F.loudness(w, 16000),
        "kaldi": lambda: [torchaudio.compliance.kaldi.fbank(w, dither=0.), torchaudio.compliance.kaldi.mfcc(w, dither=0.)],
        "ConvTasNet": lambda: torchaudio.models.ConvTasNet().eval()(w[None]),
        "Conformer": lambda: torchaudio.models.Conformer(80, 4, 64, 2, 31).eval()(torch.rand(2, 50, 80), torch.tensor([50, 40])),
        "wav2vec2": lambda: torchaudio.models.wav2vec2_base().eval()(w),
        "edit distance": lambda: F.edit_distance("rush", "brush"),
    }.items():
        yield "torchaudio: " + name, run


def metrics():
    import torchmetrics
    import torchmetrics.functional as F
    p, y = torch.rand(50, 4).softmax(-1), torch.randint(4, (50,))
    image, other = torch.rand(2, 3, 48, 48), torch.rand(2, 3, 48, 48)
    for name, run in {
        "classification": lambda: [m(num_classes=4)(p, y) for m in (torchmetrics.classification.MulticlassAccuracy, torchmetrics.classification.MulticlassF1Score,
                                                                    torchmetrics.classification.MulticlassAUROC, torchmetrics.classification.MulticlassConfusionMatrix,
                                                                    torchmetrics.classification.MulticlassAveragePrecision)],
        "regression": lambda: [F.mean_squared_error(p, p * .9), F.r2_score(p[:, 0], p[:, 1]), F.spearman_corrcoef(p[:, 0], p[:, 1]), F.pearson_corrcoef(p[:, 0], p[:, 1])],
        "image": lambda: [F.structural_similarity_index_measure(image, other), F.peak_signal_noise_ratio(image, other), F.total_variation(image)],
        "text": lambda: [F.bleu_score(["the cat is here"], [["the cat is here now"]]), F.char_error_rate(["abc"], ["abd"]), F.perplexity(p[None].log(), y[None])],
        "audio": lambda: [F.signal_noise_ratio(image, other), F.scale_invariant_signal_distortion_ratio(image, other)],
        "collection": lambda: torchmetrics.MetricCollection([torchmetrics.MeanMetric(), torchmetrics.MaxMetric()])(p),
        "retrieval": lambda: torchmetrics.retrieval.RetrievalMAP()(p[:, 0], y > 1, indexes=torch.arange(50) // 10),
        "clustering": lambda: torchmetrics.functional.clustering.mutual_info_score(y, y.roll(1)),
    }.items():
        yield "torchmetrics: " + name, run


def tensors():
    import safetensors.torch as st
    made = {"a": torch.rand(3, 4), "b": torch.arange(5), "c": torch.rand(2).to(torch.bfloat16), "d": torch.ones(2, dtype=torch.bool)}

    def files():
        with tempfile.TemporaryDirectory() as folder:
            st.save_file(made, folder + "/x.safetensors", {"by": "hand"})
            with st.safe_open(folder + "/x.safetensors", "pt") as f:
                part = f.get_slice("a")[1:2]
            return [st.load_file(folder + "/x.safetensors"), part]

    def model():
        with tempfile.TemporaryDirectory() as folder:
            net = torch.nn.Linear(3, 3)
            st.save_model(net, folder + "/m.safetensors")
            st.load_model(net, folder + "/m.safetensors")
            return net.weight
    yield "safetensors: bytes", lambda: st.load(st.save(made))
    yield "safetensors: files", files
    yield "safetensors: models", model


def others():
    def info():
        import torchinfo
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 14 * 14, 5))
        found = torchinfo.summary(net, (2, 3, 16, 16), verbose=0)
        return [found.total_params, found.total_mult_adds]

    def stateful():
        from torchdata.stateful_dataloader import StatefulDataLoader
        loader = StatefulDataLoader(list(range(10)), batch_size=3, num_workers=0)
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        again = StatefulDataLoader(list(range(10)), batch_size=3, num_workers=0)
        again.load_state_dict(state)
        return list(again)
    yield "torchinfo: summary", info
    yield "torchdata: StatefulDataLoader", stateful


def main():
    out, sys.stdout = sys.stdout, io.StringIO()     # what packages print is not ours
    for family in (vision, audio, metrics, tensors, others):
        if sys.argv[1:] and family.__name__ not in sys.argv[1:]:
            continue
        try:
            torch.manual_seed(0)
            checks = list(family())
        except Exception as error:
            out.write(json.dumps({family.__name__: "%s: %s" % (type(error).__name__, str(error)[:200])}) + "\n")
            continue
        for name, run in checks:
            torch.manual_seed(0)
            try:
                got = numbers(run())
            except Exception as error:
                got = "%s: %s" % (type(error).__name__, str(error)[:200])
            out.write(json.dumps({name: got}) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
