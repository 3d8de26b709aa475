// The driver API as code generators use it: PTX made at run time for an expression, linked with a library of
// functions, launched with attributes; what compilers and linkers say of mistakes.
#include "check_driver.h"

static const char* const kHead = ".version 7.0\n.target sm_70\n.address_size 64\n";

// A function of a library: x * x + y.
static std::string library() {
  return std::string(kHead) + R"(
.visible .func (.param .u32 out) square_and_add(.param .u32 x, .param .u32 y) {
  .reg .u32 %r<4>;
  ld.param.u32 %r1, [x];
  ld.param.u32 %r2, [y];
  mad.lo.u32 %r3, %r1, %r1, %r2;
  st.param.u32 [out], %r3;
  ret;
}
)";
}

// A kernel for a polynomial that is known only now: Horner's rule, each step a call.
static std::string kernel_for(const std::vector<unsigned>& coefficients) {
  std::string text = std::string(kHead) + R"(
.extern .func (.param .u32 out) square_and_add(.param .u32 x, .param .u32 y);
.visible .global .align 4 .u32 calls;
.visible .entry evaluate(.param .u64 values, .param .u32 n) {
  .reg .u32 %r<8>; .reg .u64 %rd<4>; .reg .pred %p1;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r2, [n];
  setp.ge.u32 %p1, %r1, %r2;
  @%p1 bra DONE;
  ld.param.u64 %rd1, [values];
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.u32 %r4, [%rd1];
)";
  for (const unsigned coefficient : coefficients)
    text +=
        "  { .param .u32 a; .param .u32 b; .param .u32 c;\n    st.param.u32 [a], %r4;\n    mov.u32 %r5, " +
        std::to_string(coefficient) +
        ";\n    st.param.u32 [b], %r5;\n    call.uni (c), square_and_add, (a, b);\n    ld.param.u32 %r4, "
        "[c]; }\n"
        "  atom.global.add.u32 %r6, [calls], 1;\n";
  return text + "  st.global.u32 [%rd1], %r4;\nDONE:\n  ret;\n}\n";
}

static void evaluates(const std::vector<unsigned>& coefficients, unsigned n) {
  std::string main_text = kernel_for(coefficients), library_text = library();
  char said[2048] = "", wrong[2048] = "";
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {said, reinterpret_cast<void*>(sizeof said), wrong, reinterpret_cast<void*>(sizeof wrong)};
  CUlinkState link;
  CU(cuLinkCreate(4, options, values, &link));
  CU(cuLinkAddData(link, CU_JIT_INPUT_PTX, main_text.data(), main_text.size() + 1, "main", 0, nullptr,
                   nullptr));
  CU(cuLinkAddData(link, CU_JIT_INPUT_PTX, library_text.data(), library_text.size() + 1, "library", 0,
                   nullptr, nullptr));
  void* image;
  size_t bytes = 0;
  CU(cuLinkComplete(link, &image, &bytes));
  HOLDS(bytes > 0, "an image");
  CUmodule module;
  CU(cuModuleLoadData(&module, image));
  CU(cuLinkDestroy(link));  // the module has all it needs
  CUfunction evaluate;
  CUdeviceptr counter, device;
  size_t counter_bytes = 0;
  CU(cuModuleGetFunction(&evaluate, module, "evaluate"));
  CU(cuModuleGetGlobal(&counter, &counter_bytes, module, "calls"));
  HOLDS(counter_bytes == 4, "%zu", counter_bytes);
  unsigned count = 99;
  CU(cuModuleGetFunctionCount(&count, module));
  HOLDS(count == 1, "%u kernels", count);
  std::vector<unsigned> host(n);
  for (unsigned i = 0; i < n; ++i) host[i] = i * 5 + 1;
  const std::vector<unsigned> before = host;
  CU(cuMemAlloc(&device, n * 4));
  CU(cuMemsetD32(counter, 0, 1));
  CU(cuMemcpyHtoD(device, host.data(), n * 4));
  CUstream stream;
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attribute.value.priority = 0;
  CUlaunchConfig config = {};
  config.gridDimX = (n + 63) / 64, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 64, config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream, config.attrs = &attribute, config.numAttrs = 1;
  void* parameters[] = {&device, &n};
  CU(cuLaunchKernelEx(&config, evaluate, parameters, nullptr));
  CU(cuStreamSynchronize(stream));
  CU(cuMemcpyDtoH(host.data(), device, n * 4));
  for (unsigned i = 0; i < n; ++i) {
    unsigned wanted = before[i];
    for (const unsigned coefficient : coefficients) wanted = wanted * wanted + coefficient;
    HOLDS(host[i] == wanted, "%u: %u, %u", i, host[i], wanted);
  }
  unsigned calls = 0;
  CU(cuMemcpyDtoH(&calls, counter, 4));
  HOLDS(calls == n * coefficients.size(), "%u calls", calls);
  // The same with the parameters in one buffer.
  struct {
    CUdeviceptr values;
    unsigned n;
  } packed = {device, n};
  size_t packed_bytes = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                   CU_LAUNCH_PARAM_END};
  CU(cuMemcpyHtoD(device, before.data(), n * 4));
  CU(cuLaunchKernel(evaluate, config.gridDimX, 1, 1, 64, 1, 1, 0, stream, nullptr, extra));
  CU(cuStreamSynchronize(stream));
  std::vector<unsigned> again(n);
  CU(cuMemcpyDtoH(again.data(), device, n * 4));
  HOLDS(again == host, "the same again");
  CU(cuStreamDestroy(stream));
  CU(cuMemFree(device));
  CU(cuModuleUnload(module));
}

static void mistakes() {
  CUmodule module;
  char wrong[1024] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {wrong, reinterpret_cast<void*>(sizeof wrong)};
  const std::string text = std::string(kHead) + ".visible .entry f() { no.such %r1; ret; }\n";
  HOLDS(cuModuleLoadDataEx(&module, text.c_str(), 2, options, values) == CUDA_ERROR_INVALID_PTX, "no PTX");
  HOLDS(wrong[0] != '\0', "it says what is wrong");
  HOLDS(cuModuleLoadData(&module, kernel_for({1}).c_str()) != CUDA_SUCCESS, "a function that there is not");
  const std::string right = std::string(kHead) + ".visible .entry f() { ret; }\n";
  CU(cuModuleLoadData(&module, right.c_str()));
  CUfunction function;
  CUdeviceptr global;
  HOLDS(cuModuleGetFunction(&function, module, "g") == CUDA_ERROR_NOT_FOUND, "no kernel of that name");
  HOLDS(cuModuleGetGlobal(&global, nullptr, module, "g") == CUDA_ERROR_NOT_FOUND, "no variable of that name");
  CU(cuModuleGetFunction(&function, module, "f"));
  HOLDS(
      cuLaunchKernel(function, 1, 1, 1, 1025, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE,
      "a block too large");
  CU(cuLaunchKernel(function, 3, 2, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr));
  CU(cuCtxSynchronize());
  CU(cuModuleUnload(module));
}

int main() {
  CU(cuInit(0));
  int count = 0;
  CU(cuDeviceGetCount(&count));
  for (int i = 0; i < count; ++i) {
    CUdevice device;
    CUcontext context;
    CU(cuDeviceGet(&device, i));
    CU(cuCtxCreate(&context, nullptr, 0, device));
    evaluates({3}, 1);
    evaluates({1, 0, 7, 4000000000u}, 500);
    mistakes();
    CU(cuCtxDestroy(context));
  }
  return verdict();
}
