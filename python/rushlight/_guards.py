"""State of the compiler: there is none."""


class TracingContext:
    @staticmethod
    def try_get():
        return None

    @staticmethod
    def get():
        raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")


class CompileContext:
    @staticmethod
    def try_get():
        return None


def active_fake_mode():
    return None


def detect_fake_mode(inputs=None):
    return None


class Source:
    pass
