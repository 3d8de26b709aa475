// `--sim`, on the simulated machine that is built beside the command.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "tools/gpufence/test/spawn.h"

namespace gpufence::command {
namespace {

using testing::Ended;
using testing::gpufence;
using testing::in_tree;
using testing::program;
using testing::Scratch;

class Simulated : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access(in_tree("sim/libnvidia-ml.so.1").c_str(), F_OK) != 0)
      GTEST_SKIP() << "the simulated machine isn't built";
  }
};

TEST_F(Simulated, ItsLibrariesStandFirst) {
  const Ended ended = gpufence({"run", "--sim", "4", "-d", "2,0", "--", program("plain"),
                                "--get=LD_LIBRARY_PATH", "--get=GPUFENCE_SIM", "--get=CUDA_VISIBLE_DEVICES"});
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.out, in_tree("sim") + ':' + in_tree("standin") + "\n4\n2,0\n");
}

TEST_F(Simulated, RunsInsideItStayInIt) {
  const Ended ended = gpufence({"run", "--sim", "4", "--", in_tree("bin/gpufence"), "run", "-d", "3", "--",
                                program("plain"), "--get=LD_LIBRARY_PATH", "--get=CUDA_VISIBLE_DEVICES"});
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.out, in_tree("sim") + ':' + in_tree("standin") + "\n3\n");
}

TEST_F(Simulated, DescriptionsAreCheckedBeforeTheStart) {
  for (const char* spec :
       {"lots", "0", "4x", "4xlots", "-1", "1000", "/nonexistent.toml", "nofile.toml", ""}) {
    const Ended ended = gpufence({"run", std::string("--sim=") + spec, "--", program("plain"), "hello"});
    EXPECT_EQ(ended.status, 125) << spec << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_EQ(ended.err.substr(0, 15), "gpufence: --sim") << ended.err;
  }
}

TEST_F(Simulated, AFileIsMadeAbsolute) {
  const Scratch scratch;
  const std::string file =
      scratch.file("machine.toml", "version = 1\n[[gpu]]\nmodel = \"h100\"\ncount = 2\n");
  const Ended ended = testing::spawn(
      {"/bin/sh", "-c",
       "cd " + scratch.path() + " && exec " + in_tree("bin/gpufence") + " run --sim machine.toml -d all -- " +
           program("plain") + " --get=GPUFENCE_SIM --get=CUDA_VISIBLE_DEVICES"},
      {"PATH=/usr/bin:/bin", "ASAN_OPTIONS=detect_leaks=0"});
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.out, file + "\n0,1\n");
}

TEST_F(Simulated, WhatCannotBeFencedCannotBeSimulated) {
  const Ended ended = gpufence({"run", "--sim", "4", "--", program("static")});
  EXPECT_EQ(ended.status, 126);
  EXPECT_EQ(ended.err, "gpufence: " + program("static") +
                           ": can't be fenced, which --sim needs: it is statically linked, so nothing can be "
                           "preloaded into it; link it dynamically\n");
  EXPECT_EQ(gpufence({"run", "--sim", "4", "--", program("rpath")}).status, 126);
}

TEST_F(Simulated, DevicesListsIt) {
  const Ended ended = gpufence({"devices", "--sim", "3x24GiB", "--json"});
  EXPECT_EQ(ended.err, "");
  ASSERT_EQ(ended.status, 0);
  const auto json = nlohmann::json::parse(ended.out);
  ASSERT_EQ(json.at("gpus").size(), 3u);
  EXPECT_EQ(json.at("gpus").at(2).at("memory").at("total"), 25769803776u);
  EXPECT_EQ(json.at("gpus").at(2).at("ordinal_pci"), 2);
  EXPECT_EQ(gpufence({"devices", "--sim", "lots"}).status, 2);
}

TEST_F(Simulated, AMixedMachineIsReadInCudasOrder) {
  const Scratch scratch;
  const std::string file =
      scratch.file("machine.toml", "version = 1\n[[gpu]]\nmodel = \"t4\"\n[[gpu]]\nmodel = \"h100\"\n");
  const Ended ended =
      gpufence({"run", "--sim", file, "-d", "all", "--", program("plain"), "--get=CUDA_VISIBLE_DEVICES"},
               {"CUDA_VISIBLE_DEVICES=0"});
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.out, "1\n");
}

}  // namespace
}  // namespace gpufence::command
