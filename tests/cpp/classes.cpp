/* classes.cpp - classes registered with torch::class_: for Python, TorchScript, operators and archives; see test_cpp.py. */
#include <torch/custom_class.h>
#include <torch/script.h>

template <class T> struct Stack : torch::CustomClassHolder {
    std::vector<T> items;
    explicit Stack(std::vector<T> given) : items(std::move(given)) {}
    void push(T x) { items.push_back(std::move(x)); }
    T pop()
    {
        TORCH_CHECK(!items.empty(), "the stack is empty");
        T last = items.back();
        items.pop_back();
        return last;
    }
    c10::intrusive_ptr<Stack> clone() const { return c10::make_intrusive<Stack>(items); }
    void merge(const c10::intrusive_ptr<Stack> &other) { items.insert(items.end(), other->items.begin(), other->items.end()); }
};
using Words = Stack<std::string>;

struct Base : torch::CustomClassHolder {
    int64_t doubled(int64_t x) const { return 2 * x; }
};
struct Counter : Base {
    int64_t count;
    at::Tensor weight;
    Counter(int64_t start, std::optional<at::Tensor> w) : count(start), weight(w ? *w : at::ones({2})) {}
    int64_t get() const { return count; }
    void set(int64_t x) { count = x; }
    at::Tensor apply(const at::Tensor &x) { return x * weight * count; }
};
using CounterPtr = c10::intrusive_ptr<Counter>;

static at::Tensor scaled(const at::Tensor &x, const CounterPtr &c) { return x * c->count; }
static CounterPtr twice(const CounterPtr &c) { return c10::make_intrusive<Counter>(c->count * 2, c->weight); }
static int64_t total(const std::vector<CounterPtr> &all, const std::optional<CounterPtr> &one)
{
    int64_t sum = one ? (*one)->count : 0;
    for (const CounterPtr &c : all) sum += c->count;
    return sum;
}
static int64_t through_ivalue(int64_t x)
{
    c10::IValue v = torch::make_custom_class<Counter>(x, std::nullopt);
    TORCH_CHECK(v.isCustomClass() && v.tagKind() == "Object");
    return v.toCustomClass<Counter>()->count;
}

TORCH_LIBRARY(test_classes, m)
{
    m.class_<Words>("Words")
        .def(torch::init<std::vector<std::string>>())
        .def("top", [](const c10::intrusive_ptr<Words> &self) { return self->items.back(); })
        .def("push", &Words::push)
        .def("pop", &Words::pop)
        .def("clone", &Words::clone)
        .def("merge", &Words::merge)
        .def("__len__", [](const c10::intrusive_ptr<Words> &self) -> int64_t { return self->items.size(); })
        .def("both", [](const c10::intrusive_ptr<Words> &self) { return std::make_tuple(self->items.size() > 1, self->items); })
        .def_pickle([](const c10::intrusive_ptr<Words> &self) { return self->items; }, [](std::vector<std::string> state) { return c10::make_intrusive<Words>(std::move(state)); });
    m.class_<Counter>("Counter")
        .def(torch::init<int64_t, std::optional<at::Tensor>>(), "counts", {torch::arg("start") = 5, torch::arg("weight") = torch::arg::none()})
        .def("apply", &Counter::apply, "", {torch::arg("x")})
        .def("doubled", &Counter::doubled)
        .def("get", &Counter::get)
        .def_readwrite("count", &Counter::count)
        .def_readonly("weight", &Counter::weight)
        .def_property("value", &Counter::get, &Counter::set)
        .def_static("of", [](int64_t x) { return c10::make_intrusive<Counter>(x, std::nullopt); });
    m.def("scaled(Tensor x, __torch__.torch.classes.test_classes.Counter c) -> Tensor", scaled);
    m.def("twice", twice);
    m.def("total", total);
    m.def("through_ivalue", through_ivalue);
}
