"""CapabilityBasedPartitioner: the nodes that a backend takes, in as few groups as can each be one call."""
import itertools
import logging

from rushlight.fx.node import _get_qualified_name
from rushlight.fx.passes.utils.fuser_utils import fuse_by_partitions

logger = logging.getLogger("torch.fx.passes.infra.partitioner")


class Partition:
    """A group of nodes; `nodes` has with each its place, counted from the end of the graph."""

    def __init__(self, id=None, nodes=None, node_orders=None):
        self.id, nodes = id, list(nodes or [])
        self.nodes = dict(zip(nodes, node_orders)) if node_orders is not None else dict.fromkeys(nodes)

    def __repr__(self):
        return str(self.nodes)

    def add_node(self, node, node_order=None):
        self.nodes[node] = node_order

    def remove_node(self, node):
        del self.nodes[node]

    def size(self):
        return len(self.nodes)


class _DependencyViewer:
    """Which nodes come after which."""

    def __init__(self, graph_module):
        self.downstreams = {}
        for node in reversed(graph_module.graph.nodes):
            after = self.downstreams[node] = set()
            for user in node.users:
                after.add(user)
                after |= self.downstreams[user]

    def downstreams_of(self, node):
        return self.downstreams[node]


def _name(target):
    name = _get_qualified_name(target)
    return "_" + name if name.startswith("operator.") else name


class CapabilityBasedPartitioner:
    """Groups the nodes that a rule (operator_support) says a backend takes, and puts them into modules."""

    def __init__(self, graph_module, operator_support, allows_single_node_partition=False, non_compute_ops=None, allowed_single_node_partition_ops=None,
                 skip_horizontal_fusion=False):
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition, self.skip_horizontal_fusion = allows_single_node_partition, skip_horizontal_fusion
        self.non_compute_ops = non_compute_ops if non_compute_ops is not None else []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops if allowed_single_node_partition_ops is not None else []
        self.dependency_viewer = _DependencyViewer(graph_module)

    def _is_node_supported(self, node):
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def _would_circle(self, nodes):
        """Does a value leave the nodes and come back?"""
        after = self.dependency_viewer.downstreams_of
        return any(not nodes.isdisjoint(after(user)) for n in nodes for user in n.users if user not in nodes)

    def propose_partitions(self):
        """The groups, as large as they can be without a value that leaves one and comes back to it."""
        modules, partitions, home, ids = dict(self.graph_module.named_modules()), {}, {}, itertools.count()
        for order, node in enumerate(reversed(self.graph_module.graph.nodes)):
            if not self.operator_support.is_node_supported(modules, node):
                continue
            mine = Partition(next(ids), [node], [order])
            partitions[mine.id], home[node] = mine, mine
            others = [home[user] for user in node.users if user in home]
            if not self.skip_horizontal_fusion:
                others += list(partitions.values())
            for other in dict.fromkeys(others):
                mine = self._merged(mine, other, partitions, home)
        self._take_items(partitions, home)
        kept = partitions.values() if self.allows_single_node_partition else [p for p in partitions.values() if self._is_worth_it(p)]
        order = {n: i for i, n in enumerate(self.graph_module.graph.nodes)}
        return [self._in_order(p, order) for p in kept if p.nodes]

    @staticmethod
    def _in_order(partition, order):
        partition.nodes = dict(sorted(partition.nodes.items(), key=lambda item: order[item[0]]))
        return partition

    def _merged(self, mine, other, partitions, home):
        """The partition of both, the larger of them, if they can be one."""
        if other is mine or other.id not in partitions or self._would_circle({*mine.nodes, *other.nodes}):
            return mine
        small, large = (other, mine) if mine.size() >= other.size() else (mine, other)
        large.nodes.update(small.nodes)
        home.update(dict.fromkeys(small.nodes, large))
        del partitions[small.id]
        return large

    @staticmethod
    def _take_items(partitions, home):
        """Parts of a result are where the result is."""
        for node, partition in list(home.items()):
            users = list(node.users)
            if not users or not all(u.op == "call_function" and _name(u.target) == "_operator.getitem" and u.args[0] is node for u in users):
                continue
            for user in users:
                if home.get(user) is not partition:
                    if user in home:
                        home[user].remove_node(user)
                    partition.add_node(user)
                    home[user] = partition

    def _is_worth_it(self, partition):
        """More than one node that computes, or one that may be alone."""
        skipped = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        count = 0
        for node in partition.nodes:
            if node.op != "call_function":
                count += 1
                continue
            name = _name(node.target)
            count += name not in skipped
            if name in self.allowed_single_node_partition_ops:
                return True
        return count > 1

    def fuse_partitions(self, partitions, prefix="fused_"):
        """The module with each group as a call of a module of its own."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions):
        """Takes nodes that compute nothing (non_compute_ops) out of groups where nothing that computes comes before, or after, them."""
        skipped = set(self.non_compute_ops)

        def idle(node):
            return node.op == "call_function" and _name(node.target) in skipped
        for partition in partitions:
            nodes = list(partition.nodes)
            gone = set()
            for walk, near in ((nodes, lambda n: n.all_input_nodes), (reversed(nodes), lambda n: n.users)):
                reached = set()
                for node in walk:
                    if not idle(node) or any(x in reached for x in near(node)):
                        reached.add(node)
                gone |= {n for n in nodes if idle(n) and n not in reached}
            for node in gone:
                partition.remove_node(node)

    def partition_and_fuse(self, prefix="fused_"):
        """propose_partitions and fuse_partitions."""
        return self.fuse_partitions(self.propose_partitions(), prefix)
