"""A test that needs an engine which this build lacks is skipped, with the library's own words as its reason."""
import pytest


def pytest_configure(config):
    # pytest-xdist would look for its class in the module torch, which the process that collects results has not
    config.addinivalue_line("filterwarnings", "ignore::rushlight.jit.TracerWarning")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    why = str(call.excinfo.value) if call.excinfo else ""
    at = why.find("this build is without ")  # src/base/cpu.c; programs that a test runs say it, too
    if report.failed and at >= 0:
        report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1] or 0, "Skipped: " + why[at:].splitlines()[0])
    return report
