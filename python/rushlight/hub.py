"""torch.hub: models from repositories with a hubconf.py, and weights by address.

Local folders work without a network. Repositories on GitHub and weights are downloaded into a cache folder with
the standard library's urllib.
"""
import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import uuid
import warnings
import zipfile
from urllib.error import HTTPError, URLError  # noqa: F401
from urllib.parse import urlparse
from urllib.request import Request, urlopen

import rushlight as torch

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
ENV_GITHUB_TOKEN = "GITHUB_TOKEN"
ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"
VAR_DEPENDENCY = "dependencies"
MODULE_HUBCONF = "hubconf.py"
READ_DATA_CHUNK = 128 * 1024
_hub_dir = None


class _Faketqdm:
    """Stands in for tqdm where that is not installed: prints nothing but keeps count."""

    def __init__(self, iterable=None, total=None, disable=False, unit=None, *args, **kwargs):
        self.iterable, self.total, self.disable, self.n = iterable, total, disable, 0

    def __iter__(self):
        return iter(self.iterable)

    def update(self, n):
        self.n += n

    def set_description(self, *args, **kwargs):
        return None

    def write(self, s):
        sys.stderr.write(s + "\n")

    def close(self):
        return None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def _import_tqdm():
    try:
        from tqdm import tqdm
        return tqdm
    except ImportError:
        return _Faketqdm


def __getattr__(name):
    if name == "tqdm":
        return _import_tqdm()
    raise AttributeError("module 'torch.hub' has no attribute '%s'" % name)


def _get_torch_home():
    cache = os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def get_dir():
    """The cache folder."""
    if os.getenv("TORCH_HUB"):
        warnings.warn("TORCH_HUB is deprecated, please use env TORCH_HOME instead", stacklevel=2)
    return _hub_dir if _hub_dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d):
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


@contextlib.contextmanager
def _add_to_sys_path(path):
    sys.path.insert(0, path)
    with contextlib.ExitStack() as leave:
        leave.callback(sys.path.remove, path)
        yield


def _import_module(name, path):
    with _add_to_sys_path(os.path.dirname(path)):
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def _parse_repo_info(github):
    """"owner/name[:ref]" -> (owner, name, ref)"""
    repo, _, ref = github.partition(":")
    owner, _, name = repo.partition("/")
    if not name:
        raise ValueError("a repository is given as owner/name or owner/name:ref, not as %r" % github)
    return owner, name, ref or "main"


def _download_repo(github, force_reload, verbose, skip_validation):
    owner, name, ref = _parse_repo_info(github)
    os.makedirs(get_dir(), exist_ok=True)
    folder = os.path.join(get_dir(), "_".join([owner, name, ref.replace("/", "_")]))
    if os.path.exists(folder) and not force_reload:
        if verbose:
            sys.stderr.write("Using cache found in %s\n" % folder)
        return folder
    archive = os.path.join(get_dir(), uuid.uuid4().hex + ".zip")
    try:
        download_url_to_file("https://github.com/%s/%s/zipball/%s" % (owner, name, ref), archive, progress=False)
        with zipfile.ZipFile(archive) as z:
            root = z.infolist()[0].filename.split("/")[0]
            for entry in z.namelist():
                if os.path.isabs(entry) or ".." in entry.split("/"):
                    raise ValueError("the archive holds an unsafe path: %s" % entry)
            unpacked = os.path.join(get_dir(), root)
            shutil.rmtree(unpacked, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
            z.extractall(get_dir())
        shutil.move(unpacked, folder)
    finally:
        if os.path.exists(archive):
            os.remove(archive)
    return folder


def _check_trust(owner, name, trust_repo):
    """Code of a repository runs on this machine: the owner must be known or confirmed."""
    path = os.path.join(get_dir(), "trusted_list")
    known = set()
    if os.path.exists(path):
        with open(path) as f:
            known = {line.strip() for line in f}
    key = owner + "_" + name
    trusted = key in known or owner in ("pytorch", "facebookresearch", "facebookincubator", "fairinternal")
    if trust_repo is True:
        trusted, remember = True, key not in known
    else:
        remember = False
    if not trusted:
        if trust_repo is None:
            warnings.warn("You are about to download and run code from an untrusted repository. In a future release, this "
                          "won't be allowed. To add the repository to your trusted list, change the command to "
                          "{calling_fn}(..., trust_repo=False) and a command prompt will appear asking for an explicit "
                          "confirmation of trust, or load(..., trust_repo=True), which will assume that the prompt is to be "
                          "answered with 'yes'. You can also use load(..., trust_repo='check') which will only prompt for "
                          "confirmation if the repo is not already trusted. This will eventually be the default behaviour",
                          stacklevel=4)
            return
        answer = input("The repository %s/%s does not belong to the list of trusted repositories and as such cannot be "
                       "downloaded. Do you trust this repository and wish to add it to the trusted list of repositories "
                       "(y/N)?" % (owner, name)).lower()
        if answer not in ("y", "yes"):
            raise Exception("Untrusted repository.")
        remember = True
    if remember:
        os.makedirs(get_dir(), exist_ok=True)
        with open(path, "a") as f:
            f.write(key + "\n")


def _folder(repo_or_dir, source, force_reload, verbose, skip_validation, trust_repo):
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError('Unknown source: "%s". Allowed values: "github" | "local".' % source)
    if source == "local":
        return repo_or_dir
    owner, name, _ = _parse_repo_info(repo_or_dir)
    _check_trust(owner, name, trust_repo)
    return _download_repo(repo_or_dir, force_reload, verbose, skip_validation)


def _check_module_exists(name):
    return importlib.util.find_spec(name) is not None


def _hubconf(folder):
    with _add_to_sys_path(folder):
        module = _import_module(MODULE_HUBCONF, os.path.join(folder, MODULE_HUBCONF))
    missing = [d for d in getattr(module, VAR_DEPENDENCY, None) or [] if not _check_module_exists(d)]
    if missing:
        raise RuntimeError("Missing dependencies: " + ", ".join(missing))
    return module


def _entry(module, model):
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    function = getattr(module, model, None)
    if not callable(function):
        raise RuntimeError("Cannot find callable %s in hubconf" % model)
    return function


def list(github, force_reload=False, skip_validation=False, trust_repo="check", verbose=True):
    """The names of a repository's models."""
    source = "local" if os.path.isdir(github) else "github"
    module = _hubconf(_folder(github, source, force_reload, verbose, skip_validation, trust_repo))
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo="check"):
    """The docstring of a model."""
    source = "local" if os.path.isdir(github) else "github"
    return _entry(_hubconf(_folder(github, source, force_reload, True, skip_validation, trust_repo)), model).__doc__


def load(repo_or_dir, model, *args, source="github", trust_repo="check", force_reload=False, verbose=True,
         skip_validation=False, **kwargs):
    """Make a model of a repository ("owner/name[:ref]", or a folder with source="local")."""
    folder = _folder(repo_or_dir, source, force_reload, verbose, skip_validation, trust_repo)
    with _add_to_sys_path(folder):
        return _entry(_hubconf(folder), model)(*args, **kwargs)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Download into a file, which appears only once it is complete (and its hash right)."""
    with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as response:
        size = response.headers.get("Content-Length")
        dst = os.path.expanduser(dst)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(dst) or ".", suffix=".partial")
        digest = hashlib.sha256()
        try:
            with os.fdopen(handle, "wb") as f, _import_tqdm()(total=int(size) if size else None, disable=not progress,
                                                             unit="B", unit_scale=True, unit_divisor=1024) as bar:
                while True:
                    chunk = response.read(READ_DATA_CHUNK)
                    if not chunk:
                        break
                    f.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
            if hash_prefix is not None and digest.hexdigest()[:len(hash_prefix)] != hash_prefix:
                raise RuntimeError('invalid hash value (expected "%s", got "%s")' % (hash_prefix, digest.hexdigest()))
            shutil.move(temporary, dst)
        finally:
            if os.path.exists(temporary):
                os.remove(temporary)


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None,
                             weights_only=False):
    """torch.load of a file that is downloaded into the cache if it is not there."""
    if model_dir is None:
        model_dir = os.path.join(get_dir(), "checkpoints")
    os.makedirs(model_dir, exist_ok=True)
    name = file_name if file_name is not None else os.path.basename(urlparse(url).path)
    cached = os.path.join(model_dir, name)
    if not os.path.exists(cached):
        sys.stderr.write('Downloading: "%s" to %s\n' % (url, cached))
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, cached, found.group(1) if found else None, progress=progress)
    return torch.load(cached, map_location=map_location, weights_only=weights_only)


def _get_cache_or_reload(github, force_reload, trust_repo, calling_fn, verbose=True, skip_validation=False):
    return _folder(github, "github", force_reload, verbose, skip_validation, trust_repo)


