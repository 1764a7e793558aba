"""What everything else stands on, in a second: the first thing to run after a build."""
import rushlight as torch


def test_values_and_views():
    x = torch.arange(6.0).view(2, 3)
    assert (x.t() @ x).tolist() == [[9, 12, 15], [12, 17, 22], [15, 22, 29]]
    assert x[:, 1].tolist() == [1, 4] and x[x > 2].tolist() == [3, 4, 5]
    x[0] += 1
    assert x.sum().item() == 18


def test_gradients():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4, 6]


def test_a_network_learns():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    for _ in range(200):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01
