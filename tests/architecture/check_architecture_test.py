#!/usr/bin/env python3
"""The checker finds each kind of violation when it is planted into a small clean tree, and nothing in the clean tree."""

import tempfile
import unittest
from pathlib import Path

from check_architecture import check

CLEAN = {
    "CMakeLists.txt": """
        tandem_folder(core)
        target_link_libraries(tandem_core PUBLIC fmt::fmt PRIVATE DNNL::dnnl)
        tandem_folder(autograd LINKS core)  # the tape
        tandem_folder(nn LINKS autograd core)
        tandem_folder(optim LINKS autograd core)
        tandem_folder(distributed LINKS core autograd nn)
    """,
    "core/tensor.h": "#include <vector>\n",
    "core/ops/dispatch.h": '#include "tandem/core/tensor.h"\n',
    "core/ops/add.h": '#include "tandem/core/tensor.h"\nnamespace kernels {\ntemplate <DeviceType>\nvoid add();\n}\n',
    "core/ops/add.cpp": '#include "tandem/core/ops/add.h"\n#include "tandem/core/ops/dispatch.h"\n',
    "core/ops/cpu/add.cpp": '#include <Eigen/Core>\n#include "tandem/core/ops/cpu/map.h"\n',
    "core/ops/cpu/map.h": "#include <Eigen/Core>\n",
    "autograd/variable.h": '#include "tandem/core/tensor.h"\n',
    "nn/module.h": '#include "tandem/autograd/variable.h"\n',
    "optim/placeholder.cpp": "// placeholder\n",
    "distributed/distributed_data_parallel.h": '#include "tandem/nn/module.h"\n',
    "tools/train.cpp": '#include "tools/flags.h"\n#include "tandem/nn/module.h"\n',
}


class CheckArchitecture(unittest.TestCase):
    def violations(self, changes):
        """What the checker says about the clean tree with files replaced, added, or (None) removed."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {**CLEAN, **changes}.items():
                if text is not None:
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text, encoding="utf-8")
            return check(root)

    def expect_one(self, changes, *parts):
        found = self.violations(changes)
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def test_clean_tree(self):
        self.assertEqual(self.violations({}), [])

    def test_edge_against_the_table(self):
        self.expect_one({"core/tensor.cpp": '\n#include "tandem/autograd/variable.h"\n'},
                        "core/tensor.cpp:2", "core includes autograd")
        self.expect_one({"autograd/node.cpp": '# include "tandem/distributed/reducer.h"\n'}, "autograd includes distributed")

    def test_edge_open_to_one_stem(self):
        self.expect_one({"distributed/reducer.cpp": '#include "tandem/nn/module.h"\n'}, "only in distributed_data_parallel")
        self.expect_one({"distributed/distributed_data_parallel.cpp": '#include "tandem/optim/sgd.h"\n'},
                        "only in sharded_optimizer")

    def test_spelling(self):
        self.expect_one({"nn/linear.cpp": '#include "linear.h"\n'}, "nn/linear.cpp:1", "spelled")
        self.expect_one({"nn/linear.cpp": '#include "../core/tensor.h"\n'}, "spelled")
        self.expect_one({"nn/linear.cpp": '#include "nn/linear.h"\n'}, "spelled")
        self.expect_one({"nn/linear.cpp": "#include <tandem/nn/linear.h>\n"}, 'spell it "tandem/nn/linear.h"')
        self.expect_one({"tools/bench.cpp": '#include "core/tensor.h"\n'}, "tools/bench.cpp:1", "spelled")

    def test_public_header_shows_a_private_dependency(self):
        self.expect_one({"core/tensor.h": "#include <Eigen/Core>\n"}, "core/tensor.h:1", "Eigen/Core")
        self.expect_one({"core/tensor.h": "#include <unsupported/Eigen/SpecialFunctions>\n"}, "unsupported/Eigen")
        self.expect_one({"nn/module.h": "#include <dnnl.hpp>\n"}, "dnnl.hpp")
        self.expect_one({"nn/module.h": "#include <oneapi/dnnl/dnnl.hpp>\n"}, "oneapi/dnnl")
        self.expect_one({"core/tensor.h": "#include <png.h>\n"}, "png.h")
        self.expect_one({"core/tensor.h": '#include "tandem/core/ops/cpu/map.h"\n'}, "not installed")

    def test_notices_that_throw(self):
        self.expect_one({"distributed/reducer.cpp": '\nfmt::print(stderr, "slow");\n'}, "distributed/reducer.cpp:2", "std::fputs")

    def test_operator_without_its_files(self):
        self.expect_one({"core/ops/add.cpp": None}, "core/ops/add.h", "no core/ops/add.cpp")
        self.expect_one({"core/ops/cpu/add.cpp": None}, "core/ops/add.h", "no core/ops/cpu/add.cpp")
        self.expect_one({"core/ops/sub.cpp": ""}, "core/ops/sub.cpp", "no sub.h")

    def test_links_against_the_table(self):
        cmake = CLEAN["CMakeLists.txt"]
        self.expect_one({"CMakeLists.txt": cmake.replace("autograd LINKS core", "autograd LINKS core nn")}, "autograd LINKS")
        self.expect_one({"CMakeLists.txt": cmake.replace("nn LINKS autograd core", "nn LINKS core")}, "nn LINKS")
        self.expect_one({"CMakeLists.txt": cmake.replace("core autograd nn", "core autograd")}, "distributed LINKS")
        self.expect_one({"CMakeLists.txt": cmake.replace("PUBLIC fmt::fmt", "PUBLIC tandem_nn")}, "tandem_nn past LINKS")
        self.expect_one({"CMakeLists.txt": cmake + "tandem_folder(extra LINKS core)\n"}, "tandem_folder(extra)")
        self.expect_one({"data/idx.cpp": ""}, "no tandem_folder(data)")


if __name__ == "__main__":
    unittest.main()
