"""Where storages live: their tag in a file, and the way back, also to another device (map_location)."""
import rushlight as torch

_package_registry = []


def register_package(priority, tagger, deserializer):
    """Teach save and load about a kind of storage: tagger(storage) names its location, deserializer moves it there."""
    _package_registry.append((priority, tagger, deserializer))
    _package_registry.sort(key=lambda entry: entry[0])


def _cpu_tag(obj):
    return "cpu" if obj.device.type == "cpu" else None


def _cpu_deserialize(obj, location):
    return obj if location == "cpu" else None


def _meta_tag(obj):
    return "meta" if obj.device.type == "meta" else None


def _meta_deserialize(obj, location):
    return torch.UntypedStorage(obj.nbytes(), device="meta") if location == "meta" else None


def _backend_tag(backend_name, obj):
    return str(obj.device) if obj.device.type == backend_name else None


def _validate_device(location, backend_name):
    """The index of a device named in a file, or an error that says what to do where it is not there."""
    module = getattr(torch, backend_name, None)
    if module is None or not module.is_available():
        name = backend_name.upper()
        raise RuntimeError("Attempting to deserialize object on a %s device but torch.%s.is_available() is False. If "
                           "you are running on a CPU-only machine, please use torch.load with "
                           "map_location=torch.device('cpu') to map your storages to the CPU." % (name, backend_name))
    index = torch._utils._get_device_index(location, True)
    if index >= module.device_count():
        raise RuntimeError("Attempting to deserialize object on %s device %d but torch.%s.device_count() is %d. Please "
                           "use torch.load with map_location to map your storages to an existing device."
                           % (backend_name.upper(), index, backend_name, module.device_count()))
    return torch.device(backend_name, index)


def validate_cuda_device(location):
    return _validate_device(location, "cuda").index


def validate_hpu_device(location):
    return _validate_device(location, "hpu").index


def _deserialize(backend_name, obj, location):
    if not location.startswith(backend_name):
        return None
    return obj.to(device=_validate_device(location, backend_name))


def _backend(name):
    return lambda obj: _backend_tag(name, obj), lambda obj, location: _deserialize(name, obj, location)


register_package(10, _cpu_tag, _cpu_deserialize)
for _i, _name in enumerate(("cuda", "mps", "xpu", "hpu")):
    register_package(20 + _i, *_backend(_name))
register_package(24, lambda obj: _backend_tag(torch._C._get_privateuse1_backend_name(), obj),
                 lambda obj, location: _deserialize(torch._C._get_privateuse1_backend_name(), obj, location))
register_package(25, _meta_tag, _meta_deserialize)


def location_tag(storage):
    for _, tagger, _ in _package_registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError("don't know how to determine data location of %s" % torch.typename(storage))


def default_restore_location(storage, location):
    for _, _, deserializer in _package_registry:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError("don't know how to restore data location of %s (tagged with %s)"
                       % (torch.typename(storage), location))


def _get_restore_location(map_location):
    """A function (storage, location) -> storage for what load was given."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes)):
        return lambda storage, location: default_restore_location(storage, map_location)
    if isinstance(map_location, torch.device):
        return lambda storage, location: default_restore_location(storage, str(map_location))

    def by_function(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result
    return by_function


def _is_meta_location(map_location):
    return str(map_location) == "meta" if isinstance(map_location, (str, torch.device)) else False
