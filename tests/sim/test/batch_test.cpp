// Calls that take a batch of operations: copies, prefetches, discards, and words that a stream writes or
// waits for. Sources: cuda.h (cuMemcpyBatchAsync, cuMemcpy3DBatchAsync, cuMemPrefetchBatchAsync,
// cuMemDiscardBatchAsync, cuStreamBatchMemOp, cuStreamWaitValue32).
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "gate.h"
#include "gpus.h"
#include "process.h"

// The versions that the headers rename away, and their per-thread twins.
extern "C" {
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*,
                                 size_t, size_t*, CUstream);
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*,
                                    size_t, CUstream);
CUresult cuStreamWriteValue32_v2_ptsz(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
}

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;

void on_machine(const char* machine, const std::function<void(CUstream)>& body) {
  in_child({{"GPUFENCE_SIM", machine}}, [&] {
    OK(cuInit(0));
    context_on(0);
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    body(stream);
  });
}

CUdeviceptr memory_of(size_t bytes) {
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, bytes));
  OK(cuMemsetD8(memory, 0, bytes));
  return memory;
}

CUdeviceptr address(void* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

unsigned word(CUdeviceptr at) {
  unsigned value = 0xdead;
  OK(cuMemcpyDtoH(&value, at, sizeof value));
  return value;
}

CUmemcpyAttributes ordered(CUmemcpySrcAccessOrder order) {
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = order;
  return attributes;
}

struct Batch {
  std::vector<CUdeviceptr> to, from;
  std::vector<size_t> bytes;
  std::vector<CUmemcpyAttributes> attributes;
  std::vector<size_t> first_of;

  CUresult start(CUstream stream) {
    return cuMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(), attributes.data(),
                              first_of.data(), attributes.size(), stream);
  }
};

TEST(CopyBatch, ReadsItsSourcesWhenItsAttributesSay) {
  on_machine("1", [](CUstream stream) {
    const CUdeviceptr memory = memory_of(12);
    unsigned in_stream_order = 1, during_the_call = 2, later = 3;
    Batch batch{
        {memory, memory + 4, memory + 8},
        {address(&in_stream_order), address(&during_the_call), address(&later)},
        {4, 4, 4},
        {ordered(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM), ordered(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL),
         ordered(CU_MEMCPY_SRC_ACCESS_ORDER_ANY)},
        {0, 1, 2}};
    Gate gate;
    OK(gate.hold(stream));
    OK(batch.start(stream));
    in_stream_order = during_the_call = 10;
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate.open();
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(word(memory), 10u);
    EXPECT_EQ(word(memory + 4), 2u);
    EXPECT_EQ(word(memory + 8), 3u);
  });
}

TEST(CopyBatch, IsCheckedAsAWholeBeforeAnythingIsCopied) {
  on_machine("1", [](CUstream stream) {
    const CUdeviceptr memory = memory_of(64), other = memory_of(64);
    OK(cuMemsetD8(other, 7, 64));
    const auto good = [&] {
      return Batch{{memory, memory + 8},
                   {other, other + 8},
                   {8, 8},
                   {ordered(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)},
                   {0}};
    };
    Batch batch = good();
    EXPECT_EQ(batch.start(nullptr), kInvalid);  // "must not be legacy NULL stream"
    EXPECT_EQ(batch.start(CU_STREAM_LEGACY), kInvalid);
    batch.attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    EXPECT_EQ(batch.start(stream), kInvalid);
    batch = good();
    batch.attributes[0].flags = 2;
    EXPECT_EQ(batch.start(stream), kInvalid);
    batch = good();
    batch.first_of[0] = 1;  // "the first entry in attrsIdxs must always be 0"
    EXPECT_EQ(batch.start(stream), kInvalid);
    batch = good();
    batch.attributes.push_back(batch.attributes[0]);
    batch.first_of = {0, 0};  // "each entry must be greater than the previous"
    EXPECT_EQ(batch.start(stream), kInvalid);
    batch.first_of = {0, 2};  // "the last entry should be less than count"
    EXPECT_EQ(batch.start(stream), kInvalid);
    batch = good();
    batch.to.clear();
    batch.from.clear();
    EXPECT_EQ(batch.start(stream), kInvalid);
    // The first version says which.
    batch = good();
    batch.bytes[1] = 64;
    size_t failed = 5;
    EXPECT_EQ(cuMemcpyBatchAsync_ptsz(batch.to.data(), batch.from.data(), batch.bytes.data(), 2,
                                      batch.attributes.data(), batch.first_of.data(), 1, &failed, stream),
              kInvalid);
    EXPECT_EQ(failed, 1u);
    EXPECT_EQ(cuMemcpyBatchAsync_ptsz(batch.to.data(), nullptr, batch.bytes.data(), 2,
                                      batch.attributes.data(), batch.first_of.data(), 1, &failed, stream),
              kInvalid);
    EXPECT_EQ(failed, SIZE_MAX);
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(word(memory), 0u);
    batch = good();
    OK(batch.start(stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(word(memory + 8), 0x07070707u);
    // A thread's own default stream is none that is legacy.
    batch = good();
    batch.to = {memory + 32, memory + 40};
    OK(cuMemcpyBatchAsync_v2_ptsz(batch.to.data(), batch.from.data(), batch.bytes.data(), 2,
                                  batch.attributes.data(), batch.first_of.data(), 1, nullptr));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_EQ(word(memory + 40), 0x07070707u);
  });
}

CUarray array_of(size_t width, size_t height, size_t depth, CUarray_format format) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = width;
  descriptor.Height = height;
  descriptor.Depth = depth;
  descriptor.Format = format;
  descriptor.NumChannels = 1;
  CUarray array = nullptr;
  OK(cuArray3DCreate(&array, &descriptor));
  return array;
}

CUmemcpy3DOperand pointer_end(CUdeviceptr at, size_t row, size_t layer) {
  CUmemcpy3DOperand end{};
  end.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  end.op.ptr.ptr = at;
  end.op.ptr.rowLength = row;
  end.op.ptr.layerHeight = layer;
  return end;
}
CUmemcpy3DOperand array_end(CUarray array, size_t x, size_t y, size_t z) {
  CUmemcpy3DOperand end{};
  end.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  end.op.array.array = array;
  end.op.array.offset = {x, y, z};
  return end;
}

TEST(CopyBatch, Of3DCountsInElementsOfItsArrays) {
  on_machine("1", [](CUstream stream) {
    const CUarray array = array_of(6, 4, 2, CU_AD_FORMAT_UNSIGNED_INT16);
    std::array<unsigned short, 64> from{}, to{};
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned short>(i);
    CUDA_MEMCPY3D_BATCH_OP in{};
    in.src = pointer_end(address(from.data()), 8, 4);  // rows of 8 elements, layers of 4 rows
    in.dst = array_end(array, 1, 1, 0);
    in.extent = {3, 2, 2};
    in.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    OK(cuMemcpy3DBatchAsync(1, &in, 0, stream));
    CUDA_MEMCPY3D_BATCH_OP out{};
    out.src = array_end(array, 1, 1, 0);
    out.dst = pointer_end(address(to.data()), 0, 0);  // "tightly packed"
    out.extent = {3, 2, 2};
    out.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    OK(cuMemcpy3DBatchAsync(1, &out, 0, stream));
    OK(cuStreamSynchronize(stream));
    const unsigned short expected[] = {0, 1, 2, 8, 9, 10, 32, 33, 34, 40, 41, 42, 0};
    for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(to[i], expected[i]) << i;

    EXPECT_EQ(cuMemcpy3DBatchAsync(1, &in, 1, stream), kInvalid);
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, &in, 0, nullptr), kInvalid);
    EXPECT_EQ(cuMemcpy3DBatchAsync(0, &in, 0, stream), kInvalid);
    CUDA_MEMCPY3D_BATCH_OP bad = in;
    bad.extent.depth = 0;  // "must not be zero"
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, &bad, 0, stream), kInvalid);
    bad = in;
    bad.src.op.ptr.rowLength = 2;  // "either zero or greater than or equal to the width"
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, &bad, 0, stream), kInvalid);
    bad = in;
    bad.dst.op.array.offset.x = 4;
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, &bad, 0, stream), kInvalid);
    bad = in;  // elements whose bytes are beyond 2^64
    bad.extent.width += 0x8000'0000'0000'0000;
    bad.src.op.ptr.rowLength = 0;
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, &bad, 0, stream), kInvalid);
    bad = in;
    bad.dst.op.array.offset.x += 0x8000'0000'0000'0000;
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, &bad, 0, stream), kInvalid);
    bad = in;
    bad.src.op.ptr.rowLength += 0x8000'0000'0000'0000;
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, &bad, 0, stream), kInvalid);
    bad = in;  // "the element size of the two CUDA arrays must match"
    bad.src = array_end(array_of(6, 4, 2, CU_AD_FORMAT_UNSIGNED_INT8), 0, 0, 0);
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, &bad, 0, stream), kInvalid);
  });
}

TEST(PrefetchBatch, GivesEachRangeTheLocationThatIsForIt) {
  on_machine("2", [](CUstream stream) {
    CUdeviceptr memory = 0;
    constexpr size_t kBytes = 1 << 16;
    OK(cuMemAllocManaged(&memory, 4 * kBytes, CU_MEM_ATTACH_GLOBAL));
    CUdeviceptr ranges[] = {memory, memory + kBytes, memory + 2 * kBytes};
    size_t sizes[] = {kBytes, kBytes, kBytes}, first_of[] = {0, 2};
    CUmemLocation locations[] = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
    OK(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, first_of, 2, 0, stream));
    const auto last = [](CUdeviceptr at) {
      int value = -77;
      OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, kBytes));
      return value;
    };
    EXPECT_EQ(last(memory), 1);
    EXPECT_EQ(last(memory + kBytes), 1);
    EXPECT_EQ(last(memory + 2 * kBytes), CU_DEVICE_CPU);
    EXPECT_EQ(last(memory + 3 * kBytes), CU_DEVICE_INVALID);
    OK(cuMemDiscardBatchAsync(ranges, sizes, 3, 0, stream));
    OK(cuMemDiscardAndPrefetchBatchAsync(ranges, sizes, 1, locations + 1, first_of, 1, 0, stream));
    EXPECT_EQ(last(memory), CU_DEVICE_CPU);

    EXPECT_EQ(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, first_of, 2, 1, stream), kInvalid);
    EXPECT_EQ(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, first_of, 2, 0, nullptr), kInvalid);
    EXPECT_EQ(cuMemPrefetchBatchAsync(ranges, sizes, 1, locations, first_of, 2, 0, stream), kInvalid);
    EXPECT_EQ(cuMemPrefetchBatchAsync(ranges, sizes, 0, locations, first_of, 0, 0, stream), kInvalid);
    locations[0].id = 2;
    EXPECT_EQ(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, first_of, 2, 0, stream),
              CUDA_ERROR_INVALID_DEVICE);
    ranges[1] = memory_of(kBytes);
    EXPECT_EQ(cuMemDiscardBatchAsync(ranges, sizes, 3, 0, stream), kInvalid);
    EXPECT_EQ(cuMemDiscardBatchAsync(ranges, nullptr, 1, 0, stream), kInvalid);
  });
}

TEST(StreamMemoryOperations, WaitUntilTheWordIsAsItShouldBe) {
  on_machine("1", [](CUstream stream) {
    struct Case {
      unsigned flags, value, not_yet, then;
    };
    for (const Case& c : {Case{CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 5}, Case{CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6},
                          Case{CU_STREAM_WAIT_VALUE_GEQ, 0x7fffffff, 0x7ffffffe, 0x80000001},  // "cyclic"
                          Case{CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5}, Case{CU_STREAM_WAIT_VALUE_AND, 6, 9, 2},
                          Case{CU_STREAM_WAIT_VALUE_NOR, 0xffff, 0xffff0000, 0x0f000000}}) {
      const CUdeviceptr flag = memory_of(4);
      OK(cuMemsetD32(flag, c.not_yet, 1));
      OK(cuStreamWaitValue32(stream, flag, c.value, c.flags));
      Diary diary;
      OK(diary.write(stream, 'x'));
      EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
      EXPECT_EQ(diary.read(), "");
      OK(cuStreamWriteValue32_v2_ptsz(nullptr, flag, c.then, 0));
      OK(cuStreamSynchronize(stream));
      EXPECT_EQ(diary.read(), "x");
    }
  });
}

TEST(StreamMemoryOperations, AreOfTwoWidthsAndTakeTheirOrderFromTheStream) {
  on_machine("1", [](CUstream stream) {
    void* pinned = nullptr;
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    memset(pinned, 0, 4096);
    CUdeviceptr flags = 0;
    OK(cuMemHostGetDevicePointer(&flags, pinned, 0));
    const CUdeviceptr memory = memory_of(16);
    CUstreamBatchMemOpParams operations[4] = {};
    operations[0].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_64, flags, {}, CU_STREAM_WAIT_VALUE_EQ, 0};
    operations[0].waitValue.value64 = uint64_t{1} << 40;
    operations[1].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, memory, {}, 0, 0};
    operations[1].writeValue.value64 = 0x1122334455667788;
    operations[2].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEMORY_BARRIER_TYPE_GPU};
    operations[3].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, memory + 8, {}, 0, 0};
    operations[3].writeValue.value = 9;
    OK(cuStreamBatchMemOp(stream, 4, operations, 0));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(word(memory), 0u);
    std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(pinned)).store(uint64_t{1} << 40);
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(word(memory), 0x55667788u);
    EXPECT_EQ(word(memory + 4), 0x11223344u);
    EXPECT_EQ(word(memory + 8), 9u);
    EXPECT_EQ(word(memory + 12), 0u);
  });
}

TEST(StreamMemoryOperations, AreChecked) {
  on_machine("2", [](CUstream stream) {
    int can = -1;
    OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
    EXPECT_EQ(can, 1);
    OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0));
    EXPECT_EQ(can, 1);
    OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0));
    EXPECT_EQ(can, 0);
    const CUdeviceptr flag = memory_of(8);
    EXPECT_EQ(cuStreamWaitValue32(stream, flag, 0, CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(cuStreamWaitValue32(stream, flag, 0, 4), kInvalid);
    EXPECT_EQ(cuStreamWaitValue32(stream, flag + 2, 0, 0), kInvalid);
    EXPECT_EQ(cuStreamWaitValue64(stream, flag + 4, 0, 0), kInvalid);
    EXPECT_EQ(cuStreamWriteValue32(stream, flag + 8, 0, 0), kInvalid);
    EXPECT_EQ(cuStreamWriteValue32(stream, flag, 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER), kInvalid);
    int on_stack = 0;
    EXPECT_EQ(cuStreamWriteValue32(stream, address(&on_stack), 0, 0), kInvalid);
    CUdeviceptr managed = 0;
    OK(cuMemAllocManaged(&managed, 4, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(cuStreamWriteValue32(stream, managed, 0, 0), kInvalid);
    std::vector<CUstreamBatchMemOpParams> many(256);
    EXPECT_EQ(cuStreamBatchMemOp(stream, 256, many.data(), 0), kInvalid);  // "must be less than 256"
    EXPECT_EQ(cuStreamBatchMemOp(stream, 1, nullptr, 0), kInvalid);
    many[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    EXPECT_EQ(cuStreamBatchMemOp(stream, 1, many.data(), 0), CUDA_ERROR_NOT_SUPPORTED);
    context_on(1);  // no peer
    EXPECT_EQ(cuStreamWriteValue32(nullptr, flag, 0, 0), kInvalid);
  });
}

TEST(StreamMemoryOperations, ThatWaitForEverEndWithTheirContext) {
  on_machine("1", [](CUstream stream) {
    const CUdeviceptr flag = memory_of(4);
    OK(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    CUstream other = nullptr;
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUuuid id;
    memcpy(id.bytes, kInsideTableId, sizeof id.bytes);
    const void* table = nullptr;
    OK(cuGetExportTable(&table, &id));
    static_cast<const InsideTable*>(table)->fault(other, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

}  // namespace
}  // namespace gpufence::sim
