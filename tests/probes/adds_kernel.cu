#include "adds_kernel.cuh"
