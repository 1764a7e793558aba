"""torch.jit._recursive: PyTorch's store of the types of scripted modules, by class. Here each module has a type of its own: the store is empty."""


class ConcreteTypeStore:
    def __init__(self):
        self.type_store, self.methods_compiled = {}, set()


concrete_type_store = ConcreteTypeStore()
