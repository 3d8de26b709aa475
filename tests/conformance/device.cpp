// The driver's start, its version, its devices, its errors' names.
#include <cctype>
#include <cstdio>
#include <cstring>

#include "driver.h"

namespace conform {
namespace {

CONFORMS_ALONE(
    Base, AnswersNothingBeforeInit,
    "cuda.h, cuInit: if cuInit() has not been called, any function from the driver API will return "
    "CUDA_ERROR_NOT_INITIALIZED") {
  int count = 0;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuMemAlloc(&memory, 4), CUDA_ERROR_NOT_INITIALIZED);
  OK(cuInit(0));
  OK(cuDeviceGetCount(&count));
}

CONFORMS_ALONE(Base, StartsWithFlagsZeroAlone, "cuda.h, cuInit: currently, the Flags parameter must be 0") {
  EXPECT_EQ(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  OK(cuInit(0));
}

CONFORMS(Base, VersionIsThousandsOfTheMajor,
         "cuda.h, cuDriverGetVersion: the version is returned as (1000 * major + 10 * minor); returns "
         "CUDA_ERROR_INVALID_VALUE if driverVersion is NULL") {
  int version = 0;
  OK(cuDriverGetVersion(&version));
  EXPECT_GE(version, 10000);
  EXPECT_LT(version, 100000);
  EXPECT_EQ(version % 10, 0);
  EXPECT_EQ(cuDriverGetVersion(nullptr), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, OrdinalsGoFromZeroToCountLessOne,
         "cuda.h, cuDeviceGet: a device handle given an ordinal in the range [0, cuDeviceGetCount()-1]") {
  OK(cuInit(0));
  CUdevice device = -1;
  for (int ordinal = 0; ordinal < devices(); ++ordinal) OK(cuDeviceGet(&device, ordinal));
  EXPECT_EQ(cuDeviceGet(&device, devices()), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
}

CONFORMS(Base, NameIsCutToTheRoomGiven,
         "cuda.h, cuDeviceGetName: name is shortened to the specified len, if len is less than the device "
         "name; NULL-terminated") {
  OK(cuInit(0));
  char name[256], cut[6];
  memset(cut, 'x', sizeof cut);
  OK(cuDeviceGetName(name, sizeof name, 0));
  ASSERT_GT(strlen(name), sizeof cut);
  OK(cuDeviceGetName(cut, sizeof cut, 0));
  EXPECT_EQ(std::string(cut, 5), std::string(name, 5));
  EXPECT_EQ(cut[5], '\0');
}

CONFORMS(Base, UuidsTellDevicesApart, "cuda.h, cuDeviceGetUuid: returns 16 octets identifying the device") {
  OK(cuInit(0));
  NEEDS(devices() >= 2, "two GPUs");
  CUuuid first, again, second;
  OK(cuDeviceGetUuid(&first, 0));
  OK(cuDeviceGetUuid(&again, 0));
  OK(cuDeviceGetUuid(&second, 1));
  EXPECT_EQ(memcmp(&first, &again, sizeof first), 0);
  EXPECT_NE(memcmp(&first, &second, sizeof first), 0);
}

CONFORMS(
    Base, PciBusIdHasTwelveCharacters,
    "cuda.h, cuDeviceGetPCIBusId: [domain]:[bus]:[device].[function], all hexadecimal values; large enough "
    "to store 13 characters including the NULL-terminator") {
  OK(cuInit(0));
  char id[13] = "";
  OK(cuDeviceGetPCIBusId(id, sizeof id, 0));
  ASSERT_EQ(strlen(id), 12u) << id;
  for (const int digit : {0, 1, 2, 3, 5, 6, 8, 9, 11})
    EXPECT_TRUE(isxdigit(static_cast<unsigned char>(id[digit]))) << id;
  EXPECT_EQ(std::string({id[4], id[7], id[10]}), "::.");
}

CONFORMS(Base, PciBusIdsFindTheirDevices,
         "cuda.h, cuDeviceGetByPCIBusId: a device handle given a PCI bus ID string: "
         "[domain]:[bus]:[device].[function] or [domain]:[bus]:[device]") {
  OK(cuInit(0));
  for (int device = 0; device < devices(); ++device) {
    char id[13] = "";
    OK(cuDeviceGetPCIBusId(id, sizeof id, device));
    CUdevice found = -1;
    OK(cuDeviceGetByPCIBusId(&found, id));
    EXPECT_EQ(found, device);
    found = -1;
    OK(cuDeviceGetByPCIBusId(&found, std::string(id, 10).c_str()));
    EXPECT_EQ(found, device);
  }
  CUdevice none = -1;
  EXPECT_NE(cuDeviceGetByPCIBusId(&none, "not a bus id"), CUDA_SUCCESS);
}

CONFORMS(
    Base, PciAttributesAreThoseOfTheBusId,
    "cuda.h, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, _PCI_DEVICE_ID, _PCI_DOMAIN_ID: PCI bus, device and domain ID "
    "of the device") {
  OK(cuInit(0));
  char id[13] = "";
  OK(cuDeviceGetPCIBusId(id, sizeof id, 0));
  unsigned domain = 0, bus = 0, device = 0;
  ASSERT_EQ(sscanf(id, "%x:%x:%x", &domain, &bus, &device), 3);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID), static_cast<int>(domain));
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), static_cast<int>(bus));
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID), static_cast<int>(device));
}

CONFORMS(
    Base, WarpsHave32Threads,
    "CUDA C++ Programming Guide, Hardware Implementation, SIMT Architecture: groups of 32 parallel threads "
    "called warps") {
  OK(cuInit(0));
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
}

CONFORMS(
    Base, BlocksHaveAtMost1024Threads,
    "CUDA C++ Programming Guide, Technical Specifications per Compute Capability: maximum number of threads "
    "per block 1024; x- and y-dimension of a block 1024, z-dimension 64") {
  OK(cuInit(0));
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), 1024);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y), 1024);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z), 64);
}

CONFORMS(
    Base, GridsHaveTheDocumentedExtents,
    "CUDA C++ Programming Guide, Technical Specifications per Compute Capability: maximum x-dimension of a "
    "grid of thread blocks 2^31-1, y- and z-dimension 65535") {
  OK(cuInit(0));
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), 2147483647);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y), 65535);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z), 65535);
}

CONFORMS(Base, AddressingIsUnified,
         "cuda.h, Unified Addressing: unified addressing is automatically enabled in 64-bit processes") {
  OK(cuInit(0));
  for (int device = 0; device < devices(); ++device)
    EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device), 1);
}

CONFORMS(Base, AttributesAndOrdinalsAreJudged,
         "cuda.h, cuDeviceGetAttribute: CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE") {
  OK(cuInit(0));
  int value = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(0), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, devices()),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, ErrorsHaveTheNamesOfTheEnum,
         "cuda.h, cuGetErrorName: the string representation of the name of the enum error code; if the error "
         "code is not recognized, CUDA_ERROR_INVALID_VALUE and *pStr is set to the NULL address") {
  const char* name = nullptr;
  OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name));
  EXPECT_STREQ(name, "CUDA_ERROR_OUT_OF_MEMORY");
  OK(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, &name));
  EXPECT_STREQ(name, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
  OK(cuGetErrorName(CUDA_SUCCESS, &name));
  EXPECT_STREQ(name, "CUDA_SUCCESS");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &name), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(name, nullptr);
}

CONFORMS(Base, ErrorsHaveDescriptions,
         "cuda.h, cuGetErrorString: a NULL-terminated string description of the error code; unrecognized: "
         "CUDA_ERROR_INVALID_VALUE and the NULL address") {
  const char* text = nullptr;
  OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_GT(strlen(text), 0u);
  EXPECT_EQ(cuGetErrorString(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

CONFORMS(
    Base, FreeIsWithinTotal,
    "cuda.h, cuMemGetInfo: *total the total amount of memory available to the current context, *free the "
    "amount that is free; cuDeviceTotalMem: the total amount of memory available on the device") {
  Primary here;
  size_t free = 0, total = 0, device = 0;
  OK(cuMemGetInfo(&free, &total));
  OK(cuDeviceTotalMem(&device, here.device));
  EXPECT_GT(free, 0u);
  EXPECT_LT(free, total);
  EXPECT_LE(total, device);
}

CONFORMS(Base, DevicesSayWhomTheyReach,
         "cuda.h, cuDeviceCanAccessPeer: 1 if contexts on dev are capable of directly "
         "accessing memory from contexts on peerDev and 0 otherwise") {
  OK(cuInit(0));
  NEEDS(devices() >= 2, "two GPUs");
  int there = -1, wrong = -1;
  OK(cuDeviceCanAccessPeer(&there, 0, 1));
  EXPECT_TRUE(there == 0 || there == 1);
  EXPECT_EQ(cuDeviceCanAccessPeer(&wrong, 0, devices()), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceCanAccessPeer(nullptr, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(
    Base, LinksAreBetweenTwoDevices,
    "cuda.h, cuDeviceGetP2PAttribute: CUDA_ERROR_INVALID_DEVICE if srcDevice or dstDevice are not valid or "
    "if they represent the same device; CUDA_ERROR_INVALID_VALUE if value is a null pointer") {
  OK(cuInit(0));
  NEEDS(devices() >= 2, "two GPUs");
  int value = -1, reaches = -1;
  OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
  OK(cuDeviceCanAccessPeer(&reaches, 0, 1));
  EXPECT_EQ(value, reaches);
  EXPECT_EQ(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetP2PAttribute(nullptr, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace conform
