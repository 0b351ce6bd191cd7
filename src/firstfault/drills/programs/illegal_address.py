"""Lets a GPU write to an address that is mapped nowhere: the program gets an error, the kernel log a real XID 31.

Only the CUDA driver is needed; it compiles the few instructions itself. The GPU goes on working for everybody else.
FIRSTFAULT_DO=write-unmapped makes the fault; without it the same kernel writes into memory of its own.
"""

from __future__ import annotations

import ctypes
import os
import sys

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry put(.param .u64 where) {
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [where];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""
UNMAPPED = 0x7F00_DEAD_0000
cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    """Call the driver; say its error's name and text as PyTorch does, and end, when it reports one."""
    code = getattr(cuda, name)(*arguments)
    if code:
        text, label = ctypes.c_char_p(), ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        cuda.cuGetErrorName(code, ctypes.byref(label))
        words = [(each.value or b"?").decode() for each in (text, label)]
        print(f"RuntimeError: CUDA error: {words[0]} ({words[1]}, {name})", file=sys.stderr, flush=True)
        os._exit(1)


device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
own = ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(function), module, b"put")
call("cuMemAlloc_v2", ctypes.byref(own), ctypes.c_size_t(4096))
where = ctypes.c_uint64(UNMAPPED if os.environ.get("FIRSTFAULT_DO") == "write-unmapped" else own.value)
parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(where), ctypes.c_void_p))
call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
call("cuCtxSynchronize")
print("the GPU wrote where it should", flush=True)
