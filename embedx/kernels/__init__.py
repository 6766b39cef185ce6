"""Building blocks of compiled code: decorators, vector instructions, mathematics, random numbers,
matrix products.
"""

from embedx.kernels.batch import *
from embedx.kernels.by_address import *
from embedx.kernels.compiled import *
from embedx.kernels.gemm import *
from embedx.kernels.maths import *
from embedx.kernels.random import *
from embedx.kernels.select import *
from embedx.kernels.simd import *
