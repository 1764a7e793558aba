"""Tables of decompositions."""


class CustomDecompTable(dict):
    pass
