// Stream memory operations: a stream writes a word, or waits until one is as it should be. Only the second
// API is here (cuStreamWaitValue32 and its kin since CUDA 11.7): drivers have had the first one switched off
// by default.
#include <time.h>

#include <atomic>
#include <vector>

#include "access.h"
#include "driver.h"
#include "queue.h"

using namespace gpufence::sim;

namespace {

// The program's host code and kernels change these words with plain stores.
template <class Word>
Word load(CUdeviceptr address) {
  return std::atomic_ref<Word>(*reinterpret_cast<Word*>(address)).load(std::memory_order_acquire);
}

template <class Word>
bool satisfied(Word now, Word value, unsigned how) {
  switch (how) {
    case CU_STREAM_WAIT_VALUE_GEQ:  // "a cyclic comparison which ignores wraparound"
      return static_cast<std::make_signed_t<Word>>(static_cast<Word>(now - value)) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    default:
      return static_cast<Word>(~(now | value)) != 0;
  }
}

// Until it is so, or the context is over.
template <class Word>
CUresult wait(const Context& context, CUdeviceptr address, Word value, unsigned how) {
  for (long ns = 1000; !satisfied(load<Word>(address), value, how); ns = ns < 1'000'000 ? ns * 2 : ns) {
    if (context.cancel.load(std::memory_order_acquire)) return CUDA_SUCCESS;
    const timespec pause{0, ns};
    nanosleep(&pause, nullptr);
  }
  return CUDA_SUCCESS;
}

CUresult check_word(Context& context, CUdeviceptr address, uint64_t bytes) {
  Found found;
  // "This function cannot be used with managed memory."
  if (address % bytes != 0 || !find(address, found) || found.managed || !may_touch(context, address))
    return CUDA_ERROR_INVALID_VALUE;
  return bytes > found.bytes + found.beyond - (address - found.base) ? CUDA_ERROR_INVALID_VALUE
                                                                     : CUDA_SUCCESS;
}

CUresult operation_of(Context& context, const CUstreamBatchMemOpParams& op, Operation* out) {
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: {
      const bool wide = op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
      const CUdeviceptr address = op.waitValue.address;
      const unsigned how = op.waitValue.flags;
      // CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES is 0.
      if ((how & CU_STREAM_WAIT_VALUE_FLUSH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
      if (how > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
      if (const CUresult bad = check_word(context, address, wide ? 8 : 4); bad != CUDA_SUCCESS) return bad;
      if (wide)
        *out = [&context, address, value = uint64_t{op.waitValue.value64}, how] {
          return wait<uint64_t>(context, address, value, how);
        };
      else
        *out = [&context, address, value = uint32_t{op.waitValue.value}, how] {
          return wait<uint32_t>(context, address, value, how);
        };
      return CUDA_SUCCESS;
    }
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: {
      const bool wide = op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
      const CUdeviceptr address = op.writeValue.address;
      // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER "is not supported in the v2 API".
      if (op.writeValue.flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
      if (const CUresult bad = check_word(context, address, wide ? 8 : 4); bad != CUDA_SUCCESS) return bad;
      if (wide)
        *out = [address, value = uint64_t{op.writeValue.value64}] {
          std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(address)).store(value);
          return CUDA_SUCCESS;
        };
      else
        *out = [address, value = uint32_t{op.writeValue.value}] {
          std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(address)).store(value);
          return CUDA_SUCCESS;
        };
      return CUDA_SUCCESS;
    }
    case CU_STREAM_MEM_OP_BARRIER:
      if (op.memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU) return CUDA_ERROR_INVALID_VALUE;
      *out = [] {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return CUDA_SUCCESS;
      };
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult batch(const char* name, bool per_thread, CUstream handle, unsigned count,
               const CUstreamBatchMemOpParams* given, unsigned flags) {
  return in_context(name, [&](Context& current) {
    Stream* stream = nullptr;
    if (const CUresult bad = stream_of(handle, per_thread, current, &stream); bad != CUDA_SUCCESS) return bad;
    constexpr unsigned kMost = 256;
    if (flags != 0 || count >= kMost || (count != 0 && given == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Operation> operations(count);
    for (unsigned i = 0; i < count; ++i) {
      const CUresult bad = operation_of(*stream->context, given[i], &operations[i]);
      if (bad != CUDA_SUCCESS) return bad;
    }
    for (Operation& operation : operations) enqueue(*stream, std::move(operation));
    return CUDA_SUCCESS;
  });
}

CUresult one(const char* name, bool per_thread, CUstream stream, CUstreamBatchMemOpType operation,
             CUdeviceptr address, uint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams op{};
  const bool waits =
      operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  if (waits)
    op.waitValue = {operation, address, {}, flags, 0};
  else
    op.writeValue = {operation, address, {}, flags, 0};
  (waits ? op.waitValue.value64 : op.writeValue.value64) = value;
  return batch(name, per_thread, stream, 1, &op, 0);
}

}  // namespace

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                               unsigned int flags) {
  return batch(__func__, false, stream, count, operations, flags);
}
CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                                    unsigned int flags) {
  return batch(__func__, true, stream, count, operations, flags);
}
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return one(__func__, false, stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}
CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                     unsigned int flags) {
  return one(__func__, true, stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return one(__func__, false, stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}
CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                     unsigned int flags) {
  return one(__func__, true, stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return one(__func__, false, stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}
CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                      unsigned int flags) {
  return one(__func__, true, stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return one(__func__, false, stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}
CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                      unsigned int flags) {
  return one(__func__, true, stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}
