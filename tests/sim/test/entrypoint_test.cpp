// cuGetProcAddress against the ABI table, and the one export table there is.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "process.h"
#include "truth.h"

namespace gpufence::sim {
namespace {

struct Row {
  const char* exported;
  const char* name;
  int version;
  bool per_thread;
};
const Row kTable[] = {
#define GPUFENCE_DRIVER_EXPORT(exported, name, version, per_thread) \
  {#exported, #name, version, per_thread != 0},
#include "driver_exports.inc"
};

// Which export cuGetProcAddress gives, by name; "" for none.
std::string given(const char* name, int version, cuuint64_t flags,
                  CUdriverProcAddressQueryResult* status = nullptr) {
  void* address = reinterpret_cast<void*>(1);
  const CUresult result = cuGetProcAddress(name, &address, version, flags, status);
  if (result != CUDA_SUCCESS) {
    EXPECT_EQ(result, CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(address, nullptr);
    return "";
  }
  Dl_info info{};
  EXPECT_NE(dladdr(address, &info), 0);
  return info.dli_sname;
}

TEST(ProcAddress, EveryRowOfTheTableIsFoundAtItsVersionAndHasAnAddressOfItsOwn) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    std::set<void*> seen;
    for (const Row& row : kTable) {
      EXPECT_EQ(given(row.name, row.version, row.per_thread ? 2 : 0), row.exported);
      void* address = dlsym(RTLD_DEFAULT, row.exported);
      EXPECT_TRUE(address != nullptr && seen.insert(address).second) << row.exported;
    }
    EXPECT_EQ(seen.size(), 637u);
  });
}

TEST(ProcAddress, VersionsBetweenGiveTheOneBelow) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    EXPECT_EQ(given("cuMemAlloc", 2000, 0), "cuMemAlloc");
    EXPECT_EQ(given("cuMemAlloc", 3019, 0), "cuMemAlloc");
    EXPECT_EQ(given("cuMemAlloc", 3020, 0), "cuMemAlloc_v2");
    EXPECT_EQ(given("cuMemAlloc", 99999, 0), "cuMemAlloc_v2");
    EXPECT_EQ(given("cuCtxCreate", 12000, 0), "cuCtxCreate_v3");
    EXPECT_EQ(given("cuCtxGetDevice", 12080, 0), "cuCtxGetDevice");
    EXPECT_EQ(given("cuCtxGetDevice", 13000, 0), "cuCtxGetDevice_v2");
  });
}

TEST(ProcAddress, PerThreadTwinsWhereThereAreAny) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    EXPECT_EQ(given("cuMemcpyHtoD", 13000, 2), "cuMemcpyHtoD_v2_ptds");
    EXPECT_EQ(given("cuMemcpyHtoD", 13000, 1), "cuMemcpyHtoD_v2");
    EXPECT_EQ(given("cuMemcpyHtoD", 4000, 2), "cuMemcpyHtoD_v2");  // before the twins
    EXPECT_EQ(given("cuMemAlloc", 13000, 2), "cuMemAlloc_v2");     // has none
    EXPECT_EQ(given("cuStreamSynchronize", 13000, 2), "cuStreamSynchronize_ptsz");
  });
}

TEST(ProcAddress, StatusTellsWhy) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    CUdriverProcAddressQueryResult status{};
    EXPECT_EQ(given("cuMemAllocAsync", 11010, 0, &status), "");
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT_EQ(given("cuNothing", 13000, 0, &status), "");
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT_EQ(given("", 0, 0, &status), "");
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT_EQ(given("cuInit", 13000, 0, &status), "cuInit");
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
    EXPECT_EQ(given("cuMemAlloc_v2", 13000, 0), "");  // base names only
    void* address;
    EXPECT_EQ(cuGetProcAddress(nullptr, &address, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGetProcAddress("cuInit", nullptr, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGetProcAddress("cuInit", &address, 13000, 8, nullptr), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(ExportTable, OursTellsTheTruthAndOthersAreNotThere) {
  in_child({{"GPUFENCE_SIM", "4"}, {"CUDA_VISIBLE_DEVICES", "3,0"}}, [] {
    CUuuid id;
    memcpy(id.bytes, kTruthTableId, 16);
    const void* table = nullptr;
    ASSERT_EQ(cuGetExportTable(&table, &id), CUDA_SUCCESS);
    const auto& truth = *static_cast<const TruthTable*>(table);
    EXPECT_EQ(truth.size, sizeof(TruthTable));
    EXPECT_EQ(truth.device_count(), -1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(truth.device_count(), 2);
    EXPECT_EQ(truth.driver_version(), 13000);
    int domain = -1, bus = -1, device = -1;
    EXPECT_EQ(truth.device_pci(0, &domain, &bus, &device), 0);
    EXPECT_EQ(domain, 0);
    EXPECT_EQ(bus, 0x81);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(truth.device_pci(2, &domain, &bus, &device), -1);
    unsigned char uuid[16];
    CUuuid seen;
    EXPECT_EQ(truth.device_uuid(1, uuid), 0);
    EXPECT_EQ(cuDeviceGetUuid(&seen, 1), CUDA_SUCCESS);
    EXPECT_EQ(memcmp(uuid, seen.bytes, 16), 0);
    id.bytes[0] ^= 1;
    EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
  });
}

CUresult ask_for_a_table_of_nvidia() {
  const CUuuid id = {{1, 2, 3}};
  const void* table = &id;
  const CUresult result = cuGetExportTable(&table, &id);
  EXPECT_EQ(table, nullptr);
  return result;
}

TEST(ExportTables, OfNvidiaAreUnknownAndItsRuntimeIsTakenForTheAsker) {
  const std::string said = stderr_of({{"GPUFENCE_SIM", "1"}}, [] {
    EXPECT_EQ(ask_for_a_table_of_nvidia(), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(ask_for_a_table_of_nvidia(), CUDA_ERROR_NOT_FOUND);
  });
  EXPECT_NE(said.find("] GF601 warning: this program brings NVIDIA's own CUDA runtime"), std::string::npos);
  EXPECT_EQ(said.find("GF601"), said.rfind("GF601")) << said;  // once
}

// NVRTC asks too and works without: nothing is wrong then.
TEST(ExportTables, AreNotMissedWhereACompilerAsks) {
  const std::filesystem::path toolkit = std::filesystem::path(CUDA_H).parent_path().parent_path();
  const std::string nvrtc = toolkit / "lib64/libnvrtc.so";
  if (access(nvrtc.c_str(), R_OK) != 0) GTEST_SKIP() << "no " << nvrtc;
  const std::string said = stderr_of({{"GPUFENCE_SIM", "1"}}, [&] {
    void* compiler = dlopen(nvrtc.c_str(), RTLD_LAZY);
    ASSERT_NE(compiler, nullptr) << dlerror();
    auto create = reinterpret_cast<int (*)(void**, const char*, const char*, int, void*, void*)>(
        dlsym(compiler, "nvrtcCreateProgram"));
    auto compile =
        reinterpret_cast<int (*)(void*, int, const char* const*)>(dlsym(compiler, "nvrtcCompileProgram"));
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    void* program = nullptr;
    EXPECT_EQ(create(&program, "__global__ void k() {}", "k.cu", 0, nullptr, nullptr), 0);
    EXPECT_EQ(compile(program, 0, nullptr), 0);
  });
  EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace gpufence::sim
