"""Lists and dicts that cannot be changed: the arguments of nodes, whose users are counted."""
from rushlight.utils._pytree import (_dict_flatten, _dict_flatten_with_keys, _list_flatten, _list_flatten_with_keys,
                                     register_pytree_node)

__all__ = ["immutable_list", "immutable_dict"]


def _frozen(self, *args, **kwargs):
    raise TypeError("%r object does not support mutation. If you are attempting to modify the kwargs or args of a "
                    "torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n\n"
                    "    new_args = ...  # copy and mutate args\n    node.args = new_args" % type(self).__name__)


class immutable_list(list):
    def __reduce__(self):
        return immutable_list, (list(self),)

    def __hash__(self):
        return hash(tuple(self))


class immutable_dict(dict):
    def __reduce__(self):
        return immutable_dict, (dict(self),)

    def __hash__(self):
        return hash(frozenset(self.items()))


for _name in ("__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend", "insert", "pop", "remove",
              "reverse", "sort"):
    setattr(immutable_list, _name, _frozen)
for _name in ("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update"):
    setattr(immutable_dict, _name, _frozen)


def _no_mutation(self, *args, **kwargs):
    return _frozen(self)


register_pytree_node(immutable_list, _list_flatten, lambda values, context: immutable_list(values),
                     serialized_type_name="torch.fx.immutable_collections.immutable_list",
                     flatten_with_keys_fn=_list_flatten_with_keys)
register_pytree_node(immutable_dict, _dict_flatten, lambda values, context: immutable_dict(zip(context, values)),
                     serialized_type_name="torch.fx.immutable_collections.immutable_dict",
                     flatten_with_keys_fn=_dict_flatten_with_keys)
