"""torch._dynamo.explain: pieces between reads of values, numbers as PyTorch's."""
import pytest
import rushlight as torch


def straight(x):
    with torch.no_grad():
        y = torch.softmax(x, 1)
    return torch.cat([y, x])[x.shape[0]:]


def branching(x):
    y = x.sin() + 1
    if y.sum() > 0:
        y = y * 2
    return y.view(-1)


def reading(x):
    x = x + 1
    x = x * x.tolist()[0][0]
    torch._dynamo.graph_break()
    return x.exp()


def leading(x):
    torch._dynamo.graph_break()
    return x + 1


@pytest.mark.parametrize("f, graphs", [(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), 1), (straight, 1), (branching, 2), (reading, 3), (leading, 1),
                                       (lambda x: 3, 0)])
def test_counts(f, graphs):
    told = torch._dynamo.explain(f)(torch.ones(2, 2))
    assert (told.graph_count, told.graph_break_count, len(told.break_reasons)) == (graphs, graphs - 1, max(graphs - 1, 0))
    assert told.op_count == sum(map(len, told.ops_per_graph)) and f"Graph Count: {graphs}\n" in str(told)


def test_reasons():
    told = torch._dynamo.explain(reading)(torch.ones(2, 2))
    assert "tolist" in told.break_reasons[0].reason and told.break_reasons[0].user_stack[0].name == "reading"
    assert all(isinstance(graph, torch.fx.GraphModule) for graph in told.graphs)
    torch._dynamo.graph_break()  # outside of an explanation: nothing
