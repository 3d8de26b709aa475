// What a process's mappings say.
#include "tools/gpufence/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gpufence::command {
namespace {

TEST(Mappings, AreSortedByLibrary) {
  Process process;
  sort_mappings(
      "55d0e0000000-55d0e0001000 r-xp 00001000 fe:01 100      /usr/bin/python3.11\n"
      "7f0000000000-7f0000001000 r--p 00000000 fe:01 200      /opt/gpufence/lib/libgpufence.so\n"
      "7f0000001000-7f0000002000 r-xp 00001000 fe:01 200      /opt/gpufence/lib/libgpufence.so\n"
      "7f0000010000-7f0000011000 r-xp 00001000 fe:01 300      /usr/lib/libcuda.so.580.65.06\n"
      "7f0000020000-7f0000021000 r-xp 00001000 fe:01 400      /opt/a b/libcudart.so.13 (deleted)\n"
      "7f0000030000-7f0000031000 rw-p 00000000 00:00 0 \n"
      "7f0000040000-7f0000041000 rw-p 00000000 00:00 0        [heap]\n",
      process);
  ASSERT_EQ(process.gates.size(), 1u);
  EXPECT_EQ(process.gates[0].path, "/opt/gpufence/lib/libgpufence.so");
  EXPECT_EQ(process.gates[0].copies, 1u);
  EXPECT_FALSE(process.gates[0].replaced);
  EXPECT_TRUE(process.cores.empty());
  ASSERT_EQ(process.drivers.size(), 1u);
  EXPECT_EQ(process.drivers[0].path, "/usr/lib/libcuda.so.580.65.06");
  ASSERT_EQ(process.runtimes.size(), 1u);
  EXPECT_EQ(process.runtimes[0].path, "/opt/a b/libcudart.so.13");
  EXPECT_TRUE(process.runtimes[0].replaced);
}

TEST(Mappings, TellADriverThatIsLoadedTwice) {
  Process process;
  sort_mappings(
      "7f0000010000-7f0000011000 r-xp 00001000 fe:01 300      /usr/lib/libcuda.so.1\n"
      "7f0000012000-7f0000013000 r-xp 00009000 fe:01 300      /usr/lib/libcuda.so.1\n"
      "7f0000110000-7f0000111000 r-xp 00001000 fe:01 300      /usr/lib/libcuda.so.1\n"
      "7f0000210000-7f0000211000 r-xp 00001000 fe:01 301      /opt/libcuda.so.1\n",
      process);
  EXPECT_EQ(process.drivers.size(), 2u);
  EXPECT_EQ(process.copies_of_the_driver(), 3u);
}

TEST(Mappings, ThatAreNoneAreNone) {
  Process process;
  sort_mappings("\n\n-\n/libcuda.so.1\n00-01 r-xp 0 0:0 0 /libcuda", process);
  EXPECT_EQ(process.copies_of_the_driver(), 0u);
}

TEST(Process, IsReadWithItsProgramAndEnvironment) {
  const auto own = read_process(::getpid());
  ASSERT_TRUE(own);
  EXPECT_NE(own->program.find("command_test"), std::string::npos) << own->program;
  EXPECT_TRUE(own->gates.empty());
  EXPECT_EQ(read_process(999999999).error().text(), "pid 999999999: there is no such process; look at ps");
}

TEST(ProcessNumber, IsANumberAlone) {
  EXPECT_EQ(process_number("4711"), 4711);
  EXPECT_EQ(process_number(""), std::nullopt);
  EXPECT_EQ(process_number("./4711"), std::nullopt);
  EXPECT_EQ(process_number("-1"), std::nullopt);
  EXPECT_EQ(process_number("47110815471108"), std::nullopt);
}

}  // namespace
}  // namespace gpufence::command
