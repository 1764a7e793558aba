/* made.cpp - FILE, NESTED: programs whose modules and functions are made here, of text; prints what libtorch prints. */
#include <torch/jit.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <iostream>
#include <sstream>

using torch::jit::IValue;

static void functions()
{
    const char *texts[] = {
        "def f(x, y):\n    return x + y\n",
        R"(
          def helper(a: float, b: float = 2.0) -> float:
            return a ** b
          def f(x, y):
            # type: (Tensor, Tensor) -> Tensor
            return x * (helper(3.0) + helper(2., b=3.)) - y
        )",
        "def f(x, y):\n  t = (1, \"s\", 2.0)\n  s = 0\n  for v in [1, 2, 3]:\n    if v != 2:\n      s += v\n  return t[1] + str(s) + \"{} {}\".format(1, x.size(0)), 7 // -2, [v * 2 for v in [1, 2]]\n",
        "def f(x, y):\n  return g(x) + h(y)\ndef g(x):\n  return x + 1\ndef h(x):\n  return x * 2\n",
        "def f(x: int, y: int) -> int:\n  return x + y\n",
        "def f(x, *args):\n  return x\n",
        "def f(x, y):\n  return (lambda a: a)(x)\n",
        "def f(x, y):\n  return unknown(x)\n",
        "",
    };
    for (const char *text : texts)
        try {
            auto unit = torch::jit::compile(text);
            try {
                std::cout << unit->run_method("f", torch::arange(2.), torch::ones({2})) << "\n";
            } catch (const std::exception &e) {
                std::cout << "thrown when run\n";
            }
            std::cout << unit->get_functions().size() << unit->get_function("f").name() << unit->get_function("f").num_inputs() << (unit->find_function("none") == nullptr) << "\n";
        } catch (const std::exception &e) {
            std::cout << "thrown\n";
        }
    auto unit = torch::jit::compile("def f(x, k: int = 3):\n  return x * k\n");
    std::cout << unit->get_function("f")({torch::ones({1})}, {{"k", 5}}) << unit->get_function("f")({torch::ones({1})}) << "\n";
}

int main(int, char **argv)
{
    functions();
    torch::jit::Module m("Net");
    m.register_attribute("training", c10::BoolType::get(), true);
    m.register_parameter("weight", torch::tensor({{1.f, 2.f}, {3.f, 4.f}}), false);
    m.register_buffer("seen", torch::ones({2}));
    m.register_attribute("scale", c10::FloatType::get(), 0.5);
    m.register_attribute("names", c10::ListType::create(c10::StringType::get()), std::vector<std::string>{"a", "b"});
    m.register_attribute("count", c10::IntType::get(), 3);
    m.register_attribute("table", c10::DictType::create(c10::StringType::get(), c10::IntType::get()), c10::Dict<std::string, int64_t>());
    m.register_attribute("maybe", c10::OptionalType::create(c10::TensorType::get()), IValue());
    torch::jit::Module child("Child");
    child.register_attribute("training", c10::BoolType::get(), true);
    child.register_parameter("bias", torch::ones({2}), false);
    child.define(R"JIT(
    def forward(self, x):
        return x + self.bias
  )JIT");
    m.register_module("child", child);
    m.define(R"(
    def forward(self, x, k : int = 2):
        # a comment
        y = torch.mm(x, self.weight.t())
        for i in range(k):
            y = self.child.forward(y) * self.scale
        if self.training:
            y = torch.relu(y)
        else:
            y = y + self.seen
        return self.helper(y)

    def helper(self, x : Tensor) -> Tensor:
        """a
      docstring"""
        return x.relu() - 1.0
  )");
    m.define("def add_name(self, n: str) -> List[str]:\n  self.names.append(n)\n  self.table[n] = len(self.names)\n  return self.names\n");
    m.define(R"(
      def count_up(self, by: int = 1):
          self.count += by
          return self.count
      def opt(self, x: Optional[Tensor] = None) -> Tuple[int, Optional[Tensor]]:
          self.maybe = x
          return (1 if x is None else 2), self.maybe
  )");
    torch::Tensor x = torch::ones({1, 2});
    std::cout << m.forward({x}) << "\n" << m.forward({x, 3}) << "\n";
    m.eval();
    std::cout << m.forward({x}) << m.is_training() << child.is_training() << "\n";
    std::cout << m.run_method("add_name", "c") << m.attr("names") << m.attr("table") << m.run_method("count_up") << m.run_method("count_up", 5) << m.attr("count") << "\n";
    std::cout << m.run_method("opt") << m.run_method("opt", x) << "\n";
    std::cout << m.get_method("forward").num_inputs() << " " << m.get_method("opt").num_inputs() << m.get_method("forward").name() << "\n";
    for (const auto &p : m.named_parameters()) std::cout << p.name << " ";
    for (const auto &p : m.named_buffers()) std::cout << p.name << " ";
    for (const auto &p : m.named_attributes()) std::cout << p.name << " ";
    for (const auto &p : m.named_children()) std::cout << p.name << " ";
    for (const auto &p : m.get_methods()) std::cout << p.name() << " ";
    std::cout << "\n";
    m.save(argv[1]);
    std::stringstream stream;
    m.save(stream);
    torch::jit::Module again = torch::jit::load(stream);
    std::cout << again.forward({x}) << again.attr("count") << again.run_method("count_up") << again.attr("table") << "\n";
    again.define("def twice(self, x):\n  return self.forward(x) * 2\n");
    std::cout << again.run_method("twice", x) << "\n";
    torch::jit::Module copy = m.clone();
    copy.setattr("count", 100);
    std::cout << copy.attr("count") << m.attr("count") << copy.forward({x}) << "\n";
    torch::jit::Module outer("Outer");
    outer.register_module("first", again);
    outer.register_module("second", m);
    outer.define("def forward(self, x):\n    return self.first.forward(x) + self.second.forward(x, 1)\n");
    std::cout << outer.forward({x}) << "\n";
    outer.save(argv[2]);
    std::cout << torch::jit::load(argv[2]).forward({x}) << "\n";
    torch::jit::Module g("G");
    g.register_parameter("w", torch::ones({2}).requires_grad_(true), false);
    g.define("def forward(self, x):\n  return (x * self.w).sum()\n");
    auto loss = g.forward({x}).toTensor();
    loss.backward();
    std::cout << g.attr("w").toTensor().grad() << g.parameters().size() << "\n";
    std::vector<torch::Tensor> ps;
    for (const auto &p : g.parameters()) ps.push_back(p);
    torch::optim::SGD sgd(ps, 0.1);
    sgd.step();
    std::cout << g.attr("w").toTensor() << "\n";
    g.to(torch::kDouble);
    std::cout << g.attr("w").toTensor().dtype() << "\n";
    g.to(torch::kCPU, torch::kFloat);
    std::cout << g.attr("w").toTensor().dtype() << "\n";
    g.to(torch::Device("cpu"), torch::kHalf, true);
    std::cout << g.attr("w").toTensor().dtype() << "\n";
    m.eval();
    torch::jit::Module frozen = torch::jit::freeze(m, std::vector<std::string>{"count", "count_up"});
    std::cout << frozen.forward({x}) << frozen.parameters().size() << frozen.buffers().size() << frozen.hasattr("count") << frozen.hasattr("seen") << frozen.run_method("count_up") << m.attr("count") << "\n";
    std::cout << torch::jit::optimize_for_inference(m).forward({x}) << torch::jit::optimize_for_inference(frozen).forward({x}) << m.parameters().size() << "\n" << child.dump_to_str(false, true, false) << "\n";
    child.dump(false, true, true);
    m.train();
    std::cout << m.is_training() << child.is_training() << "\n";
    m.train(false);
    for (const char *bad : {"def forward(self, x):\n  return x\n", "def f(self, x)\n  return x\n", "def f(self, x):\n  return undefined_thing(x)\n", "def f(self, x):\n  return x.no_such_method()\n", "def f(self, x):\n  return self.nothing\n", "x = 3\n", "def f(self, x):\nreturn x\n"})
        try {
            m.define(bad);
            std::cout << "defined\n";
        } catch (const std::exception &e) {
            std::cout << "thrown\n";
        }
    for (auto f : {+[](torch::jit::Module &m) { m.register_parameter("weight", torch::ones({1}), false); }, +[](torch::jit::Module &m) { m.register_attribute("count", c10::IntType::get(), 1); }})
        try {
            f(m);
            std::cout << "registered\n";
        } catch (const std::exception &e) {
            std::cout << "thrown\n";
        }
}
