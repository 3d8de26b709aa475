// `gpufence devices`: one card, all its numbers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::Ended;
using testing::gpufence;

TEST(Devices, AreListedWithBothOrders) {
  const Ended ended = gpufence({"devices"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.out,
            "host  CUDA by PCI  CUDA by speed  name                   cc   memory used      busy  PCI id     "
            "   UUID\n"
            "0     0            3              Tesla T4               7.5  1 GiB of 16 GiB  37 %  "
            "0000:01:00.0  GPU-a0000000-0000-0000-0000-000000000000\n"
            "1     1            2              NVIDIA A100-SXM4-40GB  8.0  1 GiB of 40 GiB  37 %  "
            "0000:25:00.0  GPU-a1000000-0000-0000-0000-000000000000\n"
            "2     2            0              NVIDIA H100 80GB HBM3  9.0  1 GiB of 80 GiB  37 %  "
            "0000:81:00.0  GPU-b2000000-0000-0000-0000-000000000000\n"
            "3     3            1              NVIDIA H100 80GB HBM3  9.0  1 GiB of 80 GiB  37 %  "
            "0000:c1:00.0  GPU-b3000000-0000-0000-0000-000000000000\n"
            "to paste: --devices 0,1,2,3   (nobody is on 0,1,2,3)\n");
}

TEST(Devices, WithoutCudaTheOrdinalsAreMissing) {
  const Ended ended = gpufence({"devices"}, {"STANDIN_DRIVER=no-device"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_NE(ended.out.find("\n0     –            –              Tesla T4 "), std::string::npos) << ended.out;
}

TEST(Devices, AMaskDoesNotChangeTheTable) {
  EXPECT_EQ(gpufence({"devices"}, {"CUDA_VISIBLE_DEVICES=1"}).out, gpufence({"devices"}).out);
}

TEST(Devices, JsonHasStableKeys) {
  const Ended ended = gpufence({"devices", "--json"}, {"STANDIN_HOLDER=" + std::to_string(::getpid())});
  EXPECT_EQ(ended.status, 0);
  const auto json = nlohmann::json::parse(ended.out);
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_FALSE(json.at("host").get<std::string>().empty());
  EXPECT_EQ(json.at("driver"), "580.65.06");
  ASSERT_EQ(json.at("gpus").size(), 4u);
  const auto& gpu = json.at("gpus").at(2);
  EXPECT_EQ(gpu.at("host_index"), 2);
  EXPECT_EQ(gpu.at("ordinal_pci"), 2);
  EXPECT_EQ(gpu.at("ordinal_fastest"), 0);
  EXPECT_EQ(gpu.at("uuid"), "GPU-b2000000-0000-0000-0000-000000000000");
  EXPECT_EQ(gpu.at("pci"), "0000:81:00.0");
  EXPECT_EQ(gpu.at("name"), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.at("compute_capability"), "9.0");
  EXPECT_EQ(gpu.at("memory").at("total"), 85899345920u);
  EXPECT_EQ(gpu.at("memory").at("used"), 1073741824u);
  EXPECT_EQ(gpu.at("memory").at("free"), 84825604096u);
  EXPECT_EQ(gpu.at("utilization"), 37);
  ASSERT_EQ(gpu.at("holders").size(), 2u);
  EXPECT_EQ(gpu.at("holders").at(0).at("pid"), ::getpid());
  EXPECT_EQ(gpu.at("holders").at(0).at("bytes"), 1073741824u);
  EXPECT_NE(gpu.at("holders").at(0).at("command").get<std::string>().find("command_test"), std::string::npos);
  EXPECT_TRUE(gpu.at("holders").at(0).at("since").is_string());
  EXPECT_EQ(gpu.at("holders").at(1).at("pid"), 4194304);
  EXPECT_TRUE(gpu.at("holders").at(1).at("command").is_null());
  EXPECT_TRUE(gpu.at("holders").at(1).at("since").is_null());
  EXPECT_TRUE(gpu.at("holders").at(1).at("bytes").is_null());
}

TEST(Devices, HoldersStandBelowTheirGpu) {
  const Ended ended = gpufence({"devices"}, {"STANDIN_HOLDER=" + std::to_string(::getpid())});
  EXPECT_NE(ended.out.find("\n      pid " + std::to_string(::getpid()) + " \""), std::string::npos)
      << ended.out;
  EXPECT_NE(ended.out.find(" holds 1 GiB since 2"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("\n      pid 4194304\n"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("to paste: --devices 0,1,2,3   (nobody is on 0,1,3)\n"), std::string::npos)
      << ended.out;
}

TEST(Devices, ALostGpuDoesNotHideTheOthers) {
  const Ended ended = gpufence({"devices"}, {"STANDIN_NVML=lost"});
  EXPECT_NE(ended.out.find("\n1     –            –              doesn't answer (GPU is lost)"),
            std::string::npos)
      << ended.out;
  EXPECT_NE(ended.out.find("to paste: --devices 0,2,3 "), std::string::npos) << ended.out;
  const auto json = nlohmann::json::parse(gpufence({"devices", "--json"}, {"STANDIN_NVML=lost"}).out);
  EXPECT_TRUE(json.at("gpus").at(1).at("uuid").is_null());
  EXPECT_EQ(json.at("gpus").at(1).at("error"), "GPU is lost");
}

TEST(Devices, WithoutADriverItIs1InOneLine) {
  const Ended ended = gpufence({"devices"}, {"STANDIN_NVML=no-driver"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err,
            "gpufence: devices: NVIDIA's driver doesn't answer (NVML: Driver Not Loaded); look at nvidia-smi "
            "and the kernel's log\n");
}

TEST(Devices, UsageErrorsAre2) {
  EXPECT_EQ(gpufence({"devices", "--topology"}).status, 2);
  EXPECT_EQ(gpufence({"devices", "0"}).status, 2);
}

}  // namespace
}  // namespace gpufence::command
