#!/usr/bin/env python3
"""A small model with random weights of each type that transformers has, under PyTorch and under rushlight: the same numbers?

    ORACLE/bin/python tests/transformers_models.py run torch.jsonl [TYPE...]
    ORACLE/bin/python -m rushlight tests/transformers_models.py run rushlight.jsonl [TYPE...]     (PYTHONPATH=python)
    python tests/transformers_models.py compare torch.jsonl rushlight.jsonl

Each is made from its configuration with small sizes, run in evaluation and in training, differentiated, generated from (greedily, with beams,
by sampling), saved and loaded again, and converted to bfloat16: sums of all that comes out go to the file, a line for each. What is there
already is not run again. A type whose small configuration PyTorch refuses is counted and no more is asked of it.
"""
import inspect
import json
import os
import random
import signal
import sys
import tempfile

SECONDS = 100   # for one model
LARGE = 60_000_000


def smaller(config):
    """What to say when the configuration is made anew: sizes by what their names mean."""
    from transformers import PretrainedConfig
    mixed = any("layer_types" in name or name in ("layers_block_type", "attn_layer_period") for name in vars(config))
    heads = getattr(config, "num_attention_heads", None)
    limits = ((("vocab_size",), 128), (("head_dim",), 16), (("heads", "n_head"), 4), (("hidden_size", "d_model", "n_embd", "embed_dim", "embedding_size", "hidden_dim",
                "model_dim", "projection_dim", "d_embed", "intermediate", "ffn", "n_inner", "d_ff", "mlp_dim", "d_inner", "image_size", "img_size"), 64),
              (("rotary_dim",), 8), (("rank",), 32), (("max_position", "n_positions"), 256))
    said = {}
    for name, value in vars(config).items():
        low = name.lower()
        if isinstance(value, PretrainedConfig):
            said[name] = {**smaller(value), "model_type": value.model_type}
        elif isinstance(value, bool) or not isinstance(value, int):
            continue
        elif low == "dim":
            said[name] = min(value, 64)
        elif low.endswith(("token_id", "token_index")):
            said[name] = value % 100 if value >= 128 else value
        elif "num_key_value" in low or "kv_heads" in low:
            said[name] = 4 if value == heads else min(value, 2)
        elif "experts" in low and value > 4:
            said[name] = 2 if "per" in low else 4
        elif "layers" in low and not any(part in low for part in ("capture", "conv", "feat")) or low in ("n_layer", "depth", "num_blocks", "num_hidden_groups"):
            said[name] = min(value, 4 if mixed else 2)
        else:
            said.update({name: min(value, most) for parts, most in limits if any(part in low for part in parts)})
    return {name: value for name, value in said.items() if value != getattr(config, name)}


def configuration(kind):
    from transformers import CONFIG_MAPPING
    made = CONFIG_MAPPING[kind]
    config = made(**smaller(made()))
    texts = config.get_text_config() if hasattr(config, "get_text_config") else config
    for each in {id(config): config, id(texts): texts}.values():
        for name, number in (("pad_token_id", 0), ("decoder_start_token_id", 1), ("bos_token_id", 1)):
            if getattr(each, name, None) is None:
                setattr(each, name, number)
    return config


def inputs(torch, model, config, task):
    """Dictionaries of arguments, to be tried in turn."""
    torch.manual_seed(3)
    names, texts = inspect.signature(model.forward).parameters, config.get_text_config() if hasattr(config, "get_text_config") else config
    words, given = getattr(texts, "vocab_size", 100) or 100, {}
    if "input_ids" in names:
        given["input_ids"] = torch.randint(min(5, words - 1), words, (2, 12))
        if "attention_mask" in names:
            given["attention_mask"] = torch.ones(2, 12, dtype=torch.long)
            given["attention_mask"][1, 9:] = 0
    if "pixel_values" in names:
        vision = getattr(config, "vision_config", config)
        side = getattr(vision, "image_size", 64)
        given["pixel_values"] = torch.randn(2, getattr(vision, "num_channels", 3) or 3, *2 * [side if isinstance(side, int) else 64])
    if "decoder_input_ids" in names:
        given["decoder_input_ids"] = torch.randint(1, words, (2, 12 if task == "sequences" else 7))
    bands, tries = getattr(getattr(config, "audio_config", config), "num_mel_bins", 80) or 80, []
    if "input_features" in names:
        length = min(2 * (getattr(config, "max_source_positions", 64) or 64), 3000)
        tries = [{**given, "input_features": torch.randn(2, *size)} for size in ((bands, length), (64, bands), (bands, 64), (1, 64, bands))]
    elif "input_values" in names and "input_ids" not in given:
        tries = [{**given, "input_values": torch.randn(2, *size)} for size in ((4000,), (getattr(config, "max_length", 64) or 64, bands), (1, 4000))]
    elif "pixel_values" in given and "input_ids" in given:
        tries = [{name: x for name, x in given.items() if name != "pixel_values"}, given]
        if model.main_input_name != "input_ids":
            tries.reverse()
    else:
        tries = [given]
    if "pixel_values" in given:
        tries.append({**given, "pixel_values": torch.randn(2, 3, 224, 224)})
    return tries + [{**given, "bbox": torch.zeros(2, 12, 4, dtype=torch.long)}] * ("bbox" in names)


def sums(torch, x, into, name):
    """[shape, dtype, sum, sum of magnitudes] of each tensor of a result."""
    if isinstance(x, torch.Tensor):
        y = torch.view_as_real(x.detach()) if x.is_complex() else x.detach()
        y = y.double()[torch.isfinite(y.double())]
        into[name] = [list(x.shape), str(x.dtype).split(".")[-1], float(y.sum()), float(y.abs().sum())]
    elif hasattr(x, "items"):
        for key, value in x.items():
            sums(torch, value, into, "%s.%s" % (name, key))
    elif isinstance(x, (list, tuple)):
        for i, value in enumerate(x):
            sums(torch, value, into, "%s.%d" % (name, i))


def numbers(torch, kind, task, auto):
    """What one model answers."""
    import numpy as np

    def seed(n):
        torch.manual_seed(n)
        np.random.seed(n)
        random.seed(n)
    config = configuration(kind)
    seed(0)
    model, found = auto.from_config(config).eval(), {}
    count = sum(p.numel() for p in model.parameters())
    if count > LARGE:
        return {"refused": "%d parameters" % count}
    sums(torch, torch.cat([p.detach().float().flatten() for p in model.parameters()]), found, "parameters")
    tries = inputs(torch, model, config, task)
    for i, given in enumerate(tries):
        seed(4)
        try:
            sums(torch, model(**given), found, "evaluated")
            break
        except Exception:  # other arguments are tried, and the last one's error is told
            if i == len(tries) - 1:
                raise
    found["arguments"] = i
    model.train()
    seed(1)
    loss = sum(x.float().pow(2).mean() for x in model(**given).values() if isinstance(x, torch.Tensor) and x.is_floating_point() and x.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
        gradients = [p.grad.flatten().double() for p in model.parameters() if p.grad is not None]
        found["loss"], found["gradients"] = [loss.item()], [len(gradients), float(torch.cat(gradients).norm())]
    model.eval()
    if task in ("words", "translation"):
        start = {name: x for name, x in given.items() if not name.startswith("decoder")}
        for how, options in (("greedy", {"do_sample": False}), ("beams", {"do_sample": False, "num_beams": 3}), ("sampled", {"do_sample": True, "top_k": 20, "top_p": 0.9})):
            seed(2)
            found[how] = model.generate(**start, max_new_tokens=6, **options).tolist()
    if task == "features":
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            model.save_pretrained(folder)
            sums(torch, auto.from_pretrained(folder).eval()(**given), found, "loaded")
            half = auto.from_config(config, dtype=torch.bfloat16).eval()
            half.load_state_dict(model.state_dict())
            try:
                sums(torch, half(**{name: x.bfloat16() if x.is_floating_point() else x for name, x in given.items()}), found, "bfloat16")
            except Exception as error:  # many models mix dtypes in their own code; both libraries have to refuse that
                found["bfloat16 refused"] = type(error).__name__
    return found


def run(path, only):
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")
    import torch
    import transformers as t
    torch.set_num_threads(1)
    tasks = {"features": t.AutoModel, "words": t.AutoModelForCausalLM, "translation": t.AutoModelForSeq2SeqLM, "pictures": t.AutoModelForImageClassification,
             "masked": t.AutoModelForMaskedLM, "sequences": t.AutoModelForSequenceClassification, "sounds": t.AutoModelForAudioClassification}
    with open(path, "a+") as file:
        file.seek(0)
        done = {tuple(json.loads(line)["model"]) for line in file}
        for task, auto in tasks.items():
            for kind in dict.fromkeys(config.model_type for config in auto._model_mapping if config.model_type in t.CONFIG_MAPPING):
                if (only and kind not in only) or (kind, task) in done:
                    continue
                file.flush()
                child = os.fork()
                if not child:
                    for stream in (1, 2):
                        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
                    signal.alarm(SECONDS)
                    try:
                        found = numbers(torch, kind, task, auto)
                    except Exception as error:
                        found = {"refused": "%s: %s" % (type(error).__name__, str(error)[:300])}
                    file.write(json.dumps({"model": [kind, task], **found}) + "\n")
                    file.flush()
                    os._exit(0)
                status = os.waitpid(child, 0)[1]
                if status:
                    file.write(json.dumps({"model": [kind, task], "refused": "the process ended with %d" % status}) + "\n")


def agree(a, b, allowed):
    if isinstance(a, list) and len(a) == 4 and isinstance(a[0], list) and isinstance(a[3], float):  # sums of a tensor
        return a[:2] == b[:2] and all(abs(x - y) <= allowed * max(a[3], 1) for x, y in zip(a[2:], b[2:]))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(agree(x, y, allowed) for x, y in zip(a, b))
    return a == b or isinstance(a, float) and abs(a - b) <= allowed * max(abs(a), abs(b), 1)


def compare(theirs, ours):
    theirs, ours = ({tuple(line["model"]): line for line in map(json.loads, open(path))} for path in (theirs, ours))
    compared = same = refused = 0
    for model, wanted in theirs.items():
        got = ours.get(model)
        if got is None or "refused" in wanted:
            refused += got is not None
            continue
        compared += 1
        differs = [key for key in wanted if key not in got or not agree(wanted[key], got[key], 0.03 if key.startswith("bfloat16.") else 2e-4)]
        same += not differs
        if differs:
            print(*model, got.get("refused") or {key: (wanted[key], got.get(key)) for key in differs[:3]})
    print("%d compared, %d equal; %d refused by PyTorch" % (compared, same, refused))
    return same < compared


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("run", "compare"):
        sys.exit(__doc__)
    sys.exit(run(sys.argv[2], sys.argv[3:]) if sys.argv[1] == "run" else compare(*sys.argv[2:]))
