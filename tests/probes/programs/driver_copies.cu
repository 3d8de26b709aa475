// The driver's copies and fills of blocks: every pair of host, device and array, in two and three dimensions
// with offsets and pitches, against a model of the host.
#include "check_driver.h"

constexpr size_t kWidth = 24, kHeight = 7, kDepth = 5;  // bytes, rows, slices

// The same volume three times over: what the host says, and what is copied.
struct Volume {
  CUmemorytype type;
  std::vector<uint8_t> model = std::vector<uint8_t>(kWidth * kHeight * kDepth);
  std::vector<uint8_t> host = std::vector<uint8_t>(kWidth * kHeight * kDepth);
  CUdeviceptr device = 0;
  CUarray array = nullptr;

  explicit Volume(CUmemorytype which, unsigned seed) : type(which) {
    for (uint8_t& byte : model) byte = (seed = seed * 1103515245u + 12345u) >> 16;
    host = model;
    if (type == CU_MEMORYTYPE_DEVICE) {
      CU(cuMemAlloc(&device, model.size()));
      CU(cuMemcpyHtoD(device, model.data(), model.size()));
    }
    if (type == CU_MEMORYTYPE_ARRAY) {
      const CUDA_ARRAY3D_DESCRIPTOR desc = {kWidth / 4, kHeight, kDepth, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0};
      CU(cuArray3DCreate(&array, &desc));
      CUDA_MEMCPY3D copy = {};
      copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = model.data();
      copy.srcPitch = kWidth, copy.srcHeight = kHeight;
      copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
      copy.WidthInBytes = kWidth, copy.Height = kHeight, copy.Depth = kDepth;
      CU(cuMemcpy3D(&copy));
    }
  }
  std::vector<uint8_t> read() const {
    std::vector<uint8_t> out = host;
    if (type == CU_MEMORYTYPE_DEVICE) CU(cuMemcpyDtoH(out.data(), device, out.size()));
    if (type == CU_MEMORYTYPE_ARRAY) {
      CUDA_MEMCPY3D copy = {};
      copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.srcArray = array;
      copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = out.data();
      copy.dstPitch = kWidth, copy.dstHeight = kHeight;
      copy.WidthInBytes = kWidth, copy.Height = kHeight, copy.Depth = kDepth;
      CU(cuMemcpy3D(&copy));
    }
    return out;
  }
  void free() const {
    if (device != 0) CU(cuMemFree(device));
    if (array != nullptr) CU(cuArrayDestroy(array));
  }
};

static void copies(CUmemorytype from_type, CUmemorytype to_type, CUstream stream) {
  Volume from(from_type, 1), to(to_type, 2);
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = from.type, copy.srcHost = from.host.data(), copy.srcDevice = from.device;
  copy.srcArray = from.array, copy.srcPitch = kWidth, copy.srcHeight = kHeight;
  copy.dstMemoryType = to.type, copy.dstHost = to.host.data(), copy.dstDevice = to.device;
  copy.dstArray = to.array, copy.dstPitch = kWidth, copy.dstHeight = kHeight;
  copy.srcXInBytes = 4, copy.srcY = 2, copy.srcZ = 1;
  copy.dstXInBytes = 12, copy.dstY = 0, copy.dstZ = 3;
  copy.WidthInBytes = 8, copy.Height = 4, copy.Depth = 2;
  if (stream != nullptr) {
    CU(cuMemcpy3DAsync(&copy, stream));
    CU(cuStreamSynchronize(stream));
  } else {
    CU(cuMemcpy3D(&copy));
    CU(cuCtxSynchronize());
  }
  for (size_t z = 0; z < 2; ++z)
    for (size_t y = 0; y < 4; ++y)
      for (size_t x = 0; x < 8; ++x)
        to.model[((z + 3) * kHeight + y) * kWidth + x + 12] =
            from.model[((z + 1) * kHeight + y + 2) * kWidth + x + 4];
  HOLDS(to.read() == to.model, "from %d to %d", from_type, to_type);
  HOLDS(from.read() == from.model, "from %d: it stays", from_type);
  copy.srcXInBytes = kWidth - 4;  // beyond the row
  if (from.type == CU_MEMORYTYPE_ARRAY) CU_ANSWERS(cuMemcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
  from.free();
  to.free();
}

static void planes() {
  CUdeviceptr pitched;
  size_t pitch = 0;
  constexpr size_t kRow = 37, kRows = 11;
  CU(cuMemAllocPitch(&pitched, &pitch, kRow, kRows, 4));
  HOLDS(pitch >= kRow, "%zu", pitch);
  std::vector<uint8_t> model(kRow * kRows), out(model.size());
  CU(cuMemsetD2D8(pitched, pitch, 9, kRow, kRows));
  std::fill(model.begin(), model.end(), 9);
  CU(cuMemsetD2D16(pitched + 2 * pitch + 4, pitch, 0x1234, 3, 2));
  CU(cuMemsetD2D32(pitched + 5 * pitch + 8, pitch, 0x89abcdef, 2, 3));
  const uint8_t of_16[] = {0x34, 0x12}, of_32[] = {0xef, 0xcd, 0xab, 0x89};
  for (size_t y = 2; y < 4; ++y)
    for (size_t x = 0; x < 6; ++x) model[y * kRow + 4 + x] = of_16[x % 2];
  for (size_t y = 5; y < 8; ++y)
    for (size_t x = 0; x < 8; ++x) model[y * kRow + 8 + x] = of_32[x % 4];
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.srcDevice = pitched, copy.srcPitch = pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = out.data(), copy.dstPitch = kRow;
  copy.WidthInBytes = kRow, copy.Height = kRows;
  CU(cuMemcpy2D(&copy));
  HOLDS(out == model, "fills of 8, 16 and 32 bits");
  // A column of one byte, unaligned, from the host and back within the device.
  std::vector<uint8_t> column(kRows);
  for (size_t y = 0; y < kRows; ++y) model[y * kRow + 35] = model[y * kRow + 36] = column[y] = 100 + y;
  copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = column.data(), copy.srcPitch = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = pitched, copy.dstPitch = pitch,
  copy.dstXInBytes = 35;
  copy.WidthInBytes = 1, copy.Height = kRows;
  CU(cuMemcpy2DUnaligned(&copy));
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED, copy.srcDevice = pitched, copy.srcPitch = pitch,
  copy.srcXInBytes = 35;
  copy.dstXInBytes = 36;
  CU(cuMemcpy2D(&copy));
  copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.srcDevice = pitched, copy.srcPitch = pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = out.data(), copy.dstPitch = kRow;
  copy.WidthInBytes = kRow, copy.Height = kRows;
  CU(cuMemcpy2D(&copy));
  HOLDS(out == model, "a column");
  copy.srcPitch = kRow - 1;  // less than a row
  CU_ANSWERS(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
  CU_ANSWERS(cuMemAllocPitch(&pitched, &pitch, 16, 16, 5), CUDA_ERROR_INVALID_VALUE);
  CU_ANSWERS(cuMemsetD32(pitched + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
  CU(cuMemFree(pitched));
}

static void rows_of_arrays() {
  CUarray array;
  const CUDA_ARRAY_DESCRIPTOR desc = {50, 0, CU_AD_FORMAT_FLOAT, 1};
  CU(cuArrayCreate(&array, &desc));
  std::vector<float> in(50), out(50);
  for (int i = 0; i < 50; ++i) in[i] = i * 0.5f;
  CU(cuMemcpyHtoA(array, 0, in.data(), 200));
  CUdeviceptr device;
  CU(cuMemAlloc(&device, 200));
  CU(cuMemcpyAtoD(device, array, 40, 80));
  CU(cuMemcpyDtoA(array, 0, device, 40));
  CU(cuMemcpyAtoA(array, 160, array, 0, 40));
  CU(cuMemcpyAtoH(out.data(), array, 0, 200));
  for (int i = 0; i < 10; ++i) in[i] = in[i + 10];
  for (int i = 0; i < 10; ++i) in[i + 40] = in[i];
  HOLDS(in == out, "%g, %g", out[0], out[40]);
  CUDA_ARRAY3D_DESCRIPTOR told;
  CU(cuArray3DGetDescriptor(&told, array));
  HOLDS(told.Width == 50 && told.Height == 0 && told.Depth == 0 && told.Format == CU_AD_FORMAT_FLOAT,
        "as made");
  CU(cuMemFree(device));
  CU(cuArrayDestroy(array));
}

int main() {
  CUcontext context;
  CUstream stream;
  CU(cuInit(0));
  CU(cuCtxCreate(&context, nullptr, 0, 0));
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (const CUmemorytype from : {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY})
    for (const CUmemorytype to : {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY}) {
      copies(from, to, nullptr);
      copies(from, to, stream);
    }
  planes();
  rows_of_arrays();
  CU(cuStreamDestroy(stream));
  CU(cuCtxDestroy(context));
  return verdict();
}
