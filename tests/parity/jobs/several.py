"""Runs a program for several accelerators on the CPU: several.py PROGRAM ARGS, with what stand_ins.py puts in their place.

The program is a part of this one, so that the processes which it spawns, and which read the main file again, start here too.
"""
import os
import sys

if __name__ == "__main__":  # a spawned process gets the path and the rest of the arguments, and has its own file's name in the first
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
    os.environ["PROGRAM"], sys.argv = sys.argv[1], sys.argv[1:]
import stand_ins  # noqa: F401  found beside this file

with open(os.environ["PROGRAM"]) as program_file:
    program = program_file.read()
if "gymnasium" in program:  # an example that trains until the task is solved: solved is less here
    import gymnasium
    gymnasium.spec("CartPole-v1").reward_threshold = 40
exec(compile(program, os.environ["PROGRAM"], "exec"))
