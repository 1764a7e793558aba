// scripted.cpp - PROGRAM PICKLE OUT OBJECTS: methods, attributes and values of any type of a program that torch.jit.script wrote;
// OBJECTS has some of the classes that are registered here.
#include "classes.cpp"

#include <fstream>
#include <iostream>
#include <iterator>

int main(int, char **argv)
{
    using torch::jit::IValue;
    torch::jit::ExtraFilesMap extra{{"labels.txt", ""}};
    torch::jit::Module net = torch::jit::load(argv[1], torch::kCPU, extra);
    std::cout << extra["labels.txt"] << "\n";
    torch::Tensor x = torch::ones({1, 3});

    IValue out = net.forward({x});
    std::cout << out.isGenericDict() << out.isTensor() << " " << out.toGenericDict().size() << "\n" << out.toGenericDict().at("y").toTensor() << "\n";
    for (const auto &entry : net.forward({x, 3, std::vector<std::string>{"p", "q"}}).toGenericDict()) std::cout << entry.key().toStringRef() << " " << entry.value().toTensor().sum().item<float>() << "\n";
    std::cout << net.get_method("forward")({x}, {{"k", 1}}).toGenericDict().at("y") << "\n";

    c10::Dict<std::string, int64_t> known;
    known.insert("a", 4);
    std::cout << net.run_method("encode", "a b a", known) << "\n";
    c10::impl::GenericList deep(c10::ListType::create(c10::IntType::get()));
    deep.push_back(IValue(std::vector<int64_t>{1, 2}));
    IValue mixed = net.get_method("mixed")({std::vector<torch::Tensor>{x, x}, c10::ivalue::Tuple::create({2, 0.25}), deep});
    std::cout << mixed << "\n";
    const auto &parts = mixed.toTuple()->elements();
    std::cout << parts.size() << parts[0].isTensorList() << parts[1].isDouble() << parts[2].isList() << parts[3].isNone() << parts[4].isGenericDict() << parts[5].toBool() << "\n";
    std::cout << parts[0].toTensorVector().size() << " " << parts[2].toList().size() << " " << parts[2].toListRef()[1].toIntVector()[0] << "\n";

    std::cout << net.attr("count").toInt() << net.attr("flag") << net.attr("title") << net.attr("names") << net.attr("table") << net.attr("pair") << "\n";
    std::cout << net.run_method("bump") << net.attr("count") << net.attr("names") << net.hasattr("count") << net.hasattr("none") << net.attr("none", 5) << "\n";
    net.setattr("count", 10);
    net.setattr("weights", torch::full({2}, 2.f));
    std::cout << net.run_method("bump") << " " << net.forward({x}).toGenericDict().at("w").toTensor().sum().item<float>() << "\n";
    torch::jit::Module inner = net.attr("inner").toModule();
    std::cout << net.attr("inner").isModule() << net.attr("inner").isObject() << inner.attr("scale") << " " << inner.forward({x}).toTensor().sum().item<float>() << "\n";

    for (const auto &p : net.named_parameters()) std::cout << p.name << " ";
    for (const auto &p : net.named_parameters(/*recurse=*/false)) std::cout << p.name << " ";
    for (const auto &b : net.named_buffers()) std::cout << b.name << " ";
    for (const auto &m : net.named_children()) std::cout << m.name << " ";
    for (const auto &m : net.named_modules()) std::cout << "[" << m.name << "] ";
    for (const auto &a : inner.named_attributes()) std::cout << a.name << " ";
    std::cout << net.children().size() << " " << net.modules().size() << " " << net.parameters().size() << "\n";
    for (const auto &m : net.get_methods()) std::cout << m.name() << " ";
    std::cout << net.find_method("encode").has_value() << net.find_method("none").has_value() << "\n";

    torch::jit::Module copy = net.clone();
    copy.setattr("count", 100);
    copy.attr("inner").toModule().attr("linear").toModule().attr("weight").toTensor().data().zero_();
    copy.train();
    std::cout << net.attr("count") << copy.attr("count") << net.is_training() << copy.is_training() << copy.attr("inner").toModule().is_training() << " "
              << (net.forward({x}).toGenericDict().at("y").toTensor() - copy.forward({x}).toGenericDict().at("y").toTensor()).abs().sum().gt(0).item<bool>() << "\n";
    net.to(torch::kDouble);
    std::cout << net.forward({x.to(torch::kDouble)}).toGenericDict().at("y").toTensor().scalar_type() << "\n";
    extra["more.txt"] = "more";
    net.save(argv[3], extra);
    torch::jit::ExtraFilesMap read{{"more.txt", ""}};
    torch::jit::Module again = torch::jit::load(argv[3], c10::nullopt, read);
    std::cout << read["more.txt"] << again.attr("count") << "\n";

    std::ifstream file(argv[2], std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    c10::impl::GenericDict dict = torch::jit::pickle_load(bytes).toGenericDict();
    std::cout << dict.at("a").toTensor().sum().item<int>() << dict.at("list") << dict.at("nested") << "\n";
    IValue back = torch::jit::pickle_load(torch::jit::pickle_save(IValue(std::make_tuple(1, "t", 2.5))));
    std::cout << back << (IValue(2) == IValue(2)) << (IValue("a") == IValue("b")) << "\n";
    for (auto f : {+[](torch::jit::Module &m, torch::Tensor &) { m.attr("none"); }, +[](torch::jit::Module &m, torch::Tensor &) { m.get_method("none"); },
                   +[](torch::jit::Module &m, torch::Tensor &t) { m.forward({t, "text"}); }, +[](torch::jit::Module &m, torch::Tensor &t) { m.forward({t}).toTensor(); }})
        try {
            f(net, x);
        } catch (const std::exception &e) {
            std::cout << "thrown\n";
        }

    torch::jit::Module objects = torch::jit::load(argv[4]);
    auto words = objects.attr("words").toCustomClass<Words>();
    std::cout << objects.attr("words").isCustomClass() << objects.attr("words").isModule() << words->items.size() << "\n";
    IValue counter = torch::make_custom_class<Counter>(int64_t(2), c10::nullopt);
    auto results = objects.forward({torch::ones({2}), counter}).toTuple()->elements();
    std::cout << results[0] << results[1] << " " << results[2].toTensor().sum().item<float>() << results[3] << " " << words->items.size() << "\n";
    try {
        objects.forward({torch::ones({2}), IValue(words)});
    } catch (const std::exception &e) {
        std::cout << "thrown\n";
    }
}
