"""Small ONNX models made by hand. The tests that use it skip where onnx is not installed."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def info(name, *shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def array(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def model(nodes, inputs, outputs, initializers=(), **kwargs):
    """A model of opset 17, and of the newest IR version that onnxruntime 1.20 reads."""
    graph = helper.make_graph(nodes, "toy", inputs, outputs, initializers)
    kwargs.setdefault("opset_imports", [helper.make_opsetid("", 17)])
    return helper.make_model(graph, ir_version=10, **kwargs)
