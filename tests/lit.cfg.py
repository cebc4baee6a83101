# SPDX-License-Identifier: Apache-2.0
# Golden tests: every .attn file under tests/ with a RUN line.
#   %attc       the compiler          %FileCheck  matches output against CHECK lines
#   %not N cmd  expects exit status N of cmd
import os

import lit.formats

config.name = "attc"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".attn", ".test"]
config.excludes = ["bench", "fuzz", "random", "numeric", "variants", "Inputs", "unit"]
config.test_source_root = os.path.dirname(__file__)
build = os.environ["ATTC_BUILD"]
config.test_exec_root = os.path.join(build, "lit")
here = config.test_source_root
python = os.environ.get("ATTC_PYTHON", "python3")
config.substitutions += [
    ("%attc", os.path.join(build, "attc")),
    ("%FileCheck", os.environ["ATTC_FILECHECK"]),
    ("%not", f"{python} {os.path.join(here, 'tools', 'expect_status.py')}"),
    ("%python", python),
    ("%root", os.path.dirname(here)),
]
for name in ("ATTC_CACHE", "ATTC_DB", "ATTC_MACHINE", "HOME", "ASAN_OPTIONS", "UBSAN_OPTIONS",
             "ATTC_LEVEL"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.environment["NO_COLOR"] = "1"
