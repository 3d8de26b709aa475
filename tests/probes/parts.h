// What parts_main.cu and parts_other.cu share: a program of two relocatable device objects (-rdc=true).
#pragma once
struct Pair {
  int a, b;
};
extern __device__ int calls;
extern __constant__ int weights[4];
__device__ int weigh(Pair pair, int index);
__global__ void other_kernel(int* out);
