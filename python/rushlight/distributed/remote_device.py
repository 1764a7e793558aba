"""Devices of other workers: "worker/cuda:0", "rank:1/cpu", "worker" (its CPU), or "cuda:0", one of this process."""
import re

import rushlight as torch

_LOCAL = re.compile(r"(?:cpu|cuda(?::\d+)?)\Z")
_REMOTE = re.compile(r"(?:rank:(?P<rank>\d+)|(?P<name>[^/:]+))(?:/(?P<device>[^/]*))?\Z")


class _remote_device:
    def __init__(self, remote_device):
        if not isinstance(remote_device, (str, torch.device)):
            raise TypeError(f"Invalid type for remote_device: {type(remote_device)}")
        text = str(remote_device)
        self._worker_name = self._rank = None
        if isinstance(remote_device, torch.device) or _LOCAL.match(text):
            self._device = torch.device(text)
            return
        parts = _REMOTE.match(text)
        if parts is None:
            raise ValueError(f"Could not parse remote_device: {text}. The valid format is '<workername>/<device>' or 'rank:<rank>/<device>' or '<device>'")
        self._worker_name, self._rank = parts["name"], None if parts["rank"] is None else int(parts["rank"])
        self._device = torch.device("cpu" if parts["device"] is None else parts["device"])

    def worker_name(self):
        """The name of the worker, or None."""
        return self._worker_name

    def rank(self):
        """The number of the worker, or None."""
        return self._rank

    def device(self):
        """The device there."""
        return self._device

    def __repr__(self):
        where = self._worker_name if self._rank is None else f"rank:{self._rank}"
        return str(self._device) if where is None else f"{where}/{self._device}"

    def __eq__(self, other):
        return isinstance(other, _remote_device) and self.__dict__ == other.__dict__

    def __hash__(self):
        return hash((self._worker_name, self._rank, self._device))
