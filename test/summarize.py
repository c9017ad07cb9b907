"""Sums the JUnit reports of the test suites into one closing line.

    summarize.py [--allow-empty] RESULTS SUITE...

RESULTS/SUITE.xml is the suite's report and RESULTS/SUITE.status its exit code.
A test that is a program of many cases has its own report in
RESULTS/SUITE/TEST.xml. Its cases are counted, and the program itself if it
failed without a failed case. Prints a line per suite, every failed test, and
last `N passed, N failed, N skipped`.

The following count as one failed test each, so that nothing passes without
running: a suite without a report, a suite that executed nothing (unless
--allow-empty), and a suite that exited with an error but reports no failure.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def read_report(path):
    """Returns (passed, failed, skipped), where failed is a list of names."""
    passed, failed, skipped = 0, [], 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = "::".join(
            part for part in (case.get("classname"), case.get("name")) if part
        )
        status = case.get("status")
        if (
            case.find("failure") is not None
            or case.find("error") is not None
            or status == "fail"
        ):
            failed.append(name)
        elif case.find("skipped") is not None or status in (
            "notrun",
            "disabled",
        ):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def read_reports(results, suite):
    """Like `read_report` for a suite, with its programs' cases in place of
    programs."""
    passed, failed, skipped = read_report(results / f"{suite}.xml")
    for path in sorted(results.glob(f"{suite}/*.xml")):
        cases_passed, cases_failed, cases_skipped = read_report(path)
        names = [name for name in failed if name.split("::")[-1] == path.stem]
        if not names:
            passed -= 1
        elif cases_failed:
            failed = [name for name in failed if name not in names]
        passed, skipped = passed + cases_passed, skipped + cases_skipped
        failed += cases_failed
    return passed, failed, skipped


def summarize_suite(results, suite, allow_empty):
    try:
        passed, failed, skipped = read_reports(results, suite)
    except (OSError, ElementTree.ParseError) as error:
        return 0, [f"{suite}: no report ({error})"], 0
    status = (results / f"{suite}.status").read_text().strip()
    if passed + len(failed) == 0 and not allow_empty:
        failed.append(f"{suite}: executed no test")
    elif status != "0" and not failed and not allow_empty:
        failed.append(f"{suite}: exited with {status} and reports no failure")
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--allow-empty", action="store_true")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("suites", nargs="+")
    options = parser.parse_args()

    total_passed, total_skipped, total_failed = 0, 0, []
    for suite in options.suites:
        passed, failed, skipped = summarize_suite(
            options.results, suite, options.allow_empty
        )
        print(
            f"{suite:<13} {passed:5} passed {len(failed):5} failed"
            f" {skipped:5} skipped"
        )
        total_passed += passed
        total_failed += failed
        total_skipped += skipped
    if total_passed + len(total_failed) == 0:
        total_failed.append("no test was executed")
    for name in total_failed:
        print(f"FAILED {name}")
    print(
        f"{total_passed} passed, {len(total_failed)} failed,"
        f" {total_skipped} skipped"
    )
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main())
