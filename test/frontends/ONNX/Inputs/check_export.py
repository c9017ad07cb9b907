"""Checks the files that export.test wrote.

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np
import onnx
from onnx import numpy_helper


def main():
    before, after = onnx.load(sys.argv[1]), onnx.load(sys.argv[2])
    values = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in after.graph.initializer
    }
    assert (values["moved"] == 7).all()
    assert (values["kept"] == np.arange(4)).all()
    assert (values["typed"] == [3, 4]).all()
    assert values["half"].dtype == np.float16
    assert (values["half"] == np.float32([1 / 3, 60001]).astype("f2")).all()
    constant = after.graph.node[0].attribute[0].t
    assert (numpy_helper.to_array(constant) == [8, 9]).all()
    assert after.graph.metadata_props == before.graph.metadata_props
    stored = onnx.load(sys.argv[2], load_external_data=False)
    locations = {
        tensor.name: {e.key: e.value for e in tensor.external_data}
        for tensor in stored.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    }
    assert set(locations) == {"moved", "kept"}, locations
    assert locations["moved"]["location"] == "trained.onnx.data"


if __name__ == "__main__":
    main()
