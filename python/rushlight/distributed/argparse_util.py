"""Options that the environment may give, too: PET_NAME for --name."""
import argparse
import os

__all__ = ["env", "check_env"]


class env(argparse.Action):
    """add_argument("--foo", action=env): PET_FOO is the default, where it is there."""

    def __init__(self, dest, default=None, required=False, **kwargs):
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, values)


class check_env(argparse.Action):
    """add_argument("--flag", action=check_env): True if it is given, or PET_FLAG is a number other than 0."""

    def __init__(self, dest, default=False, **kwargs):
        name = f"PET_{dest.upper()}"
        super().__init__(dest=dest, const=True, default=bool(int(os.environ[name])) if name in os.environ else default, nargs=0, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, self.const)
