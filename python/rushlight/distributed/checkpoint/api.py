"""The error of checkpoints, and the steps in which processes save and load together."""
import traceback

import rushlight.distributed as dist

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """Some processes failed: `failures` is {rank: (exception, where it was raised)}."""

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self):
        return self._failures

    def __str__(self):
        text = f"CheckpointException ranks:{self._failures.keys()}\n"
        for rank, (error, where) in self._failures.items():
            text += f"Traceback (most recent call last): (RANK {rank})\n"
            text += "".join(traceback.format_list(where) if where else "")
            text += "".join(traceback.format_exception_only(type(error), error)) + "\n"
        return text


class Steps:
    """Each step is done by all processes; what they return goes to one of them, which answers each. An error of one is everybody's."""

    def __init__(self, group, alone, coordinator=0):
        self.group, self.alone, self.coordinator = group, alone, coordinator
        self.rank = 0 if alone else dist.get_rank(group)
        self.is_coordinator = alone or self.rank == coordinator

    def _done(self, function, *args):
        """(what it returned, None), or (None, (exception, its trace))"""
        try:
            return function(*args), None
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)
            return None, (error, traceback.StackSummary.from_list([(f.filename, f.lineno, f.name, f.line) for f in where]))  # newer frames hold code, which has no pickle

    def step(self, name, local, together):
        """together([what local() returned on each]) returns a list with an answer for each."""
        mine = self._done(local)
        everyone = [mine]
        if not self.alone:
            everyone = [None] * dist.get_world_size(self.group)
            dist.gather_object(mine, everyone if self.is_coordinator else None, group=self.group, group_dst=self.coordinator)
        answers = None
        if self.is_coordinator:
            failures = {rank: failure for rank, (_, failure) in enumerate(everyone) if failure}
            if not failures:
                answers, failure = self._done(together, [value for value, _ in everyone])
                failures = {self.rank: failure} if failure else {}
            answers = [(failures, None)] * len(everyone) if failures else [({}, answer) for answer in answers]
        if self.alone:
            failures, answer = answers[0]
        else:
            box = [None]
            dist.scatter_object_list(box, answers, group=self.group, group_src=self.coordinator)
            failures, answer = box[0]
        if failures:
            raise CheckpointException(name, failures)
        return answer

    def everywhere(self, name, local):
        """A step that answers nothing."""
        return self.step(name, local, lambda values: [None] * len(values))
