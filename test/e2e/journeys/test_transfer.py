"""A user loads a backbone's weights into a model with another head, and trains
only the head.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import safetensors.numpy

import mpctest
from journey import INVALID, parameters, perceptron, refused, save


def test_journey(tmp_path):
    model = save(perceptron(inputs=4, hidden=8, outputs=3), tmp_path / "model.onnx")
    pretrained = parameters(np.random.default_rng(7), fc1=(8, 4), fc2=(1000, 8))
    # mpc does not mention PyTorch's counter beside the statistics.
    pretrained["fc1.num_batches_tracked"] = np.array(7)
    file = tmp_path / "imagenet.safetensors"
    safetensors.numpy.save_file(pretrained, file)
    data = tmp_path / "data.npz"
    samples = np.random.default_rng(0).normal(0, 1, (40, 4)).astype(np.float32)
    np.savez(data, x=samples, target=np.arange(40) % 3)
    command = ["train", model, "--data", data, "--loss", "cross_entropy"]
    command += ["--batch-size", 10, "--weights", file, "--train", "^fc2"]
    said = refused(INVALID, *command)
    assert "'fc2.weight' is float[1000,8], expected float[3,8]" in said
    # Follow the error's advice.
    advice = "--weights-prefix fc2.=unused."
    assert advice in said
    output = tmp_path / "o.npz"
    process = mpctest.mpc_ok(
        *(*command, *advice.split(), "--output", output)
    )
    assert "2 of 4 parameters from" in process.stderr
    assert "num_batches_tracked" not in process.stderr
    with np.load(output) as trained:
        assert np.array_equal(trained["fc1.weight"], pretrained["fc1.weight"])
        assert trained["fc2.weight"].shape == (3, 8)
