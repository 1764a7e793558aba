"""Which tests run first; a test that needs an engine which this build lacks is skipped, with the library's own words as its reason."""
import pytest


def pytest_configure(config):
    # pytest-xdist would look for its class in the module torch, which the process that collects results has not
    config.addinivalue_line("filterwarnings", "ignore::rushlight.jit.TracerWarning")


# The files that take longest, each by one process from its first test to its last: what starts late ends late. test_failing runs test_behaviour's
# snippets again and again, some of which register names: after it in the same process.
LONG = ("test_cuda", "test_cpp", "test_cuda_fused", "test_lifetime", "test_data", "test_dist_cuda", "test_install", "test_behaviour", "test_failing", "test_misuse",
        "test_ghost", "test_dist", "test_cuda_graphs", "test_lessons")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def told(excinfo):
    """What a failure tells, in its own words and in those that the test had in its hands."""
    yield str(excinfo.value)
    yield str(getattr(excinfo.value, "stderr", ""))
    for value in excinfo.traceback[-1].frame.f_locals.values():
        if isinstance(value, (str, list, tuple, BaseException)):
            yield str(value)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and call.excinfo:
        why = next((text for text in told(call.excinfo) if "this build is without " in text), None)  # src/base/cpu.c; programs that a test runs say it, too
        if why:
            reason = "this build is without " + why.split("this build is without ", 1)[1].splitlines()[0]
            report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1] or 0, "Skipped: " + reason)
    return report
