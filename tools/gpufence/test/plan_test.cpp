// The plan, from options, environment and machine as literals: what the program will find in its environment.
#include "tools/gpufence/plan.h"

#include <gtest/gtest.h>

#include <map>

namespace gpufence::command {
namespace {

using Variables = std::vector<std::string>;

constexpr std::uint64_t kGiB = 1073741824;

HostGpu card(int index, const char* uuid, const char* pci, const char* name, std::uint64_t memory) {
  HostGpu gpu;
  gpu.gpu = {.host_index = index,
             .uuid = uuid,
             .pci = pci,
             .name = name,
             .memory = memory,
             .cc_major = 9,
             .cc_minor = 0,
             .numa = 0};
  return gpu;
}

// Identical cards: the order never matters.
Host four_alike() {
  Host host;
  host.gpus = {card(0, "GPU-a0", "0000:01:00.0", "H100", 80 * kGiB),
               card(1, "GPU-a1", "0000:25:00.0", "H100", 80 * kGiB),
               card(2, "GPU-b2", "0000:81:00.0", "H100", 80 * kGiB),
               card(3, "GPU-b3", "0000:c1:00.0", "H100", 80 * kGiB)};
  return host;
}

// The third card is the fastest: CUDA's default order is 2, 0, 1.
Host mixed() {
  Host host;
  host.gpus = {card(0, "GPU-a0", "0000:01:00.0", "A100", 40 * kGiB),
               card(1, "GPU-a1", "0000:25:00.0", "T4", 16 * kGiB),
               card(2, "GPU-b2", "0000:81:00.0", "H100", 80 * kGiB)};
  return host;
}

struct Case {
  Host host = four_alike();
  Variables environment{};
  int asked = 0;

  tl::expected<Plan, policies::Error> plan(const RunOptions& options) {
    const AskOrder ask = [this](Order order) -> tl::expected<std::vector<std::string>, std::string> {
      ++asked;
      if (order == Order::pci) return std::vector<std::string>{"GPU-a0", "GPU-a1", "GPU-b2"};
      return std::vector<std::string>{"GPU-b2", "GPU-a0", "GPU-a1"};
    };
    return make_plan(options, Environment(environment), host, ask);
  }

  // NAME → value, "(unset)" for one that is removed.
  std::map<std::string, std::string> settings(const RunOptions& options) {
    std::map<std::string, std::string> result;
    const auto made = plan(options);
    EXPECT_TRUE(made) << (made ? "" : made.error().text());
    if (made)
      for (const auto& [name, value] : made->settings) result[name] = value.value_or("(unset)");
    return result;
  }

  std::string error(const RunOptions& options) {
    const auto made = plan(options);
    return made ? "no error" : made.error().text();
  }
};

using Settings = std::map<std::string, std::string>;

RunOptions devices(const char* list) {
  RunOptions options;
  options.devices = list;
  return options;
}

RunOptions memory(const char* cap) {
  RunOptions options;
  options.gpu_mem = cap;
  return options;
}

TEST(Plan, ABareRunOnlySaysWhatThereIs) {
  EXPECT_EQ(Case{}.settings({}), (Settings{{"GPUFENCE_GPUS", "GPU-a0,GPU-a1,GPU-b2,GPU-b3"}}));
  EXPECT_EQ(Case{}.plan({})->needs_fence, "");
}

TEST(Plan, AViewIsWrittenInTheHostsNumbers) {
  EXPECT_EQ(Case{}.settings(devices("2,0")), (Settings{{"GPUFENCE_GPUS", "GPU-a0,GPU-a1,GPU-b2,GPU-b3"},
                                                       {"GPUFENCE_VIEW", "GPU-b2,GPU-a0"},
                                                       {"GPUFENCE_NUMBERING", "host"},
                                                       {"CUDA_VISIBLE_DEVICES", "2,0"},
                                                       {"GPUFENCE_MASK", "2,0"},
                                                       {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}));
  EXPECT_EQ(Case{}.plan(devices("2,0"))->needs_fence, "--devices");
}

TEST(Plan, InViewNumberingTheMaskCountsUp) {
  RunOptions options = devices("3,1,0");
  options.numbering = "view";
  const Settings settings = Case{}.settings(options);
  EXPECT_EQ(settings.at("CUDA_VISIBLE_DEVICES"), "0,1,2");
  EXPECT_EQ(settings.at("GPUFENCE_MASK"), "0,1,2");
  EXPECT_EQ(settings.at("GPUFENCE_VIEW"), "GPU-b3,GPU-a1,GPU-a0");
  EXPECT_EQ(settings.at("GPUFENCE_NUMBERING"), "view");
}

TEST(Plan, NoneIsAnEmptyViewAlsoWithoutADriver) {
  const Settings expected{{"GPUFENCE_VIEW", ""},
                          {"GPUFENCE_NUMBERING", "host"},
                          {"CUDA_VISIBLE_DEVICES", ""},
                          {"GPUFENCE_MASK", ""},
                          {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}};
  const AskOrder never = [](Order) { return tl::unexpected(std::string("asked")); };
  const tl::expected<Host, NoHost> no_driver =
      tl::unexpected(NoHost{NoHost::Kind::no_driver, "no driver", "install it"});
  const auto plan = make_plan(devices(" none "), Environment(), no_driver, never);
  ASSERT_TRUE(plan);
  Settings settings;
  for (const auto& [name, value] : plan->settings) settings[name] = value.value_or("(unset)");
  EXPECT_EQ(settings, expected);
  EXPECT_EQ(plan->needs_fence, "--devices");

  const auto one = make_plan(devices("0"), Environment(), no_driver, never);
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().text(), "--devices 0: no driver; install it");
  const auto capped = make_plan(memory("0=8GiB"), Environment(), no_driver, never);
  ASSERT_TRUE(capped);
  EXPECT_EQ(capped->settings.size(), 1u);
}

TEST(Plan, ACapIsWrittenNormalised) {
  EXPECT_EQ(Case{}.settings(memory("8 g")).at("GPUFENCE_GPU_MEM"), "8GiB");
  EXPECT_EQ(Case{}.plan(memory("8 g"))->needs_fence, "--gpu-mem");
  RunOptions options;
  options.gpu_mem_per_process = "50%";
  EXPECT_EQ(Case{}.settings(options).at("GPUFENCE_GPU_MEM_PER_PROCESS"), "50%");
  EXPECT_EQ(Case{}.settings(memory("unlimited")).count("GPUFENCE_GPU_MEM"), 0u);
  EXPECT_EQ(Case{}.plan(memory("unlimited"))->needs_fence, "");
}

TEST(Plan, ACapLeavesMaskAndOrderAlone) {
  const Settings settings = Case{.environment = {"CUDA_VISIBLE_DEVICES=1"}}.settings(memory("8GiB"));
  EXPECT_EQ(settings.count("CUDA_VISIBLE_DEVICES"), 0u);
  EXPECT_EQ(settings.count("CUDA_DEVICE_ORDER"), 0u);
}

TEST(Plan, CapsSaidWrongAreErrorsThatNameTheOption) {
  EXPECT_EQ(Case{}.error(memory("lots")),
            "--gpu-mem lots: is no size; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
  EXPECT_EQ(Case{}.error(memory("8")), "--gpu-mem 8: has no unit; write 8GiB if that is meant");
  EXPECT_EQ(Case{}.error(memory("")),
            "--gpu-mem: is empty; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
  EXPECT_EQ(Case{}.error(memory("0=8GiB,1=x")),
            "--gpu-mem 0=8GiB,1=x: 'x' is no size; write a number with a unit: 8GiB, 512MiB, 1.5TiB");
  EXPECT_EQ((Case{.environment = {"GPUFENCE_GPU_MEM=8"}}.error({})),
            "GPUFENCE_GPU_MEM 8: has no unit; write 8GiB if that is meant");
}

TEST(Plan, APositionBeyondTheViewIsAnError) {
  RunOptions options = devices("2,0");
  options.gpu_mem = "0=8GiB,2=4GiB";
  EXPECT_EQ(Case{}.error(options),
            "--gpu-mem 0=8GiB,2=4GiB: position 2 is beyond the view, which has 2 GPUs; positions are 0 to 1");
  EXPECT_EQ(Case{}.error(memory("4=8GiB")),
            "--gpu-mem 4=8GiB: position 4 is beyond the view, which has 4 GPUs; positions are 0 to 3");
  EXPECT_EQ((Case{.environment = {"CUDA_VISIBLE_DEVICES=3"}}.error(memory("1=8GiB"))),
            "--gpu-mem 1=8GiB: position 1 is beyond the view, which has 1 GPU; positions are 0 to 0");
  options.devices = "none";
  EXPECT_EQ(Case{}.error(options),
            "--gpu-mem 0=8GiB,2=4GiB: position 2 is beyond the view, which has 0 GPUs; leave the cap out");
}

TEST(Plan, OptionsBeatTheEnvironment) {
  const Case from_environment{
      .environment = {"GPUFENCE_DEVICES=1", "GPUFENCE_GPU_MEM=4GiB", "GPUFENCE_NUMBERING=view"}};
  const Settings settings = Case(from_environment).settings({});
  EXPECT_EQ(settings.at("GPUFENCE_VIEW"), "GPU-a1");
  EXPECT_EQ(settings.at("CUDA_VISIBLE_DEVICES"), "0");
  EXPECT_EQ(settings.at("GPUFENCE_DEVICES"), "(unset)");
  RunOptions options = devices("2");
  options.numbering = "host";
  options.gpu_mem = "8GiB";
  const Settings others = Case(from_environment).settings(options);
  EXPECT_EQ(others.at("CUDA_VISIBLE_DEVICES"), "2");
  EXPECT_EQ(others.at("GPUFENCE_GPU_MEM"), "8GiB");
  EXPECT_EQ(
      (Case{.environment = {"GPUFENCE_GPU_MEM=4GiB"}}.settings(memory("unlimited")).at("GPUFENCE_GPU_MEM")),
      "(unset)");
  EXPECT_EQ((Case{.environment = {"GPUFENCE=off"}}.settings(memory("8GiB")).at("GPUFENCE")), "(unset)");
  EXPECT_EQ((Case{.environment = {"GPUFENCE=off"}}.settings({}).count("GPUFENCE")), 0u);
}

TEST(Plan, AnInheritedMaskIsACeiling) {
  Case inherited{.environment = {"CUDA_VISIBLE_DEVICES=1,2"}};
  EXPECT_EQ(inherited.settings(devices("2")).at("GPUFENCE_VIEW"), "GPU-b2");
  EXPECT_EQ(inherited.settings(devices("all")).at("CUDA_VISIBLE_DEVICES"), "1,2");
  EXPECT_EQ(inherited.error(devices("0")),
            "--devices 0: host GPU 0 is outside CUDA_VISIBLE_DEVICES=1,2, which was inherited; choose among "
            "host GPUs 1,2, "
            "or leave it with --ignore-mask");
  RunOptions options = devices("0");
  options.ignore_mask = true;
  EXPECT_EQ(inherited.settings(options).at("GPUFENCE_VIEW"), "GPU-a0");
  EXPECT_EQ((Case{.environment = {"CUDA_VISIBLE_DEVICES=GPU-b"}}.error(devices("0")).substr(0, 62)),
            "--devices 0: host GPU 0 is outside CUDA_VISIBLE_DEVICES=GPU-b,");
}

TEST(Plan, AMaskThatEndsEarlySaysSo) {
  const auto plan = Case{.environment = {"CUDA_VISIBLE_DEVICES=1,9,2"}}.plan(devices("all"));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->view, (std::vector<std::size_t>{1}));
  ASSERT_EQ(plan->warnings.size(), 1u);
  EXPECT_EQ(plan->warnings[0].text(),
            "CUDA_VISIBLE_DEVICES=1,9,2: '9' is past the last GPU, 3, so CUDA reads no further; correct it "
            "where it is set");
  EXPECT_TRUE((Case{.environment = {"CUDA_VISIBLE_DEVICES=1,2"}}.plan(devices("all"))->warnings.empty()));
}

TEST(Plan, AMaskIsReadInTheOrderThatItsOwnVariableSays) {
  Case by_speed{.host = mixed(), .environment = {"CUDA_VISIBLE_DEVICES=0"}};
  EXPECT_EQ(by_speed.settings(devices("all")).at("GPUFENCE_VIEW"), "GPU-b2");
  EXPECT_EQ(by_speed.asked, 1);
  Case by_pci{.host = mixed(), .environment = {"CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}};
  EXPECT_EQ(by_pci.settings(devices("all")).at("GPUFENCE_VIEW"), "GPU-a0");
  EXPECT_EQ(by_pci.asked, 0);
}

TEST(Plan, CudaIsAskedOnlyWhenItMatters) {
  Case alike{.environment = {"CUDA_VISIBLE_DEVICES=0"}};
  (void)alike.plan(devices("all"));
  EXPECT_EQ(alike.asked, 0);
  Case uuids{.host = mixed(), .environment = {"CUDA_VISIBLE_DEVICES=GPU-a0"}};
  (void)uuids.plan(devices("all"));
  EXPECT_EQ(uuids.asked, 0);
  Case unmasked{.host = mixed()};
  (void)unmasked.plan(devices("all"));
  EXPECT_EQ(unmasked.asked, 0);
  Case bare{.host = mixed(), .environment = {"CUDA_VISIBLE_DEVICES=0"}};
  (void)bare.plan(memory("8GiB"));
  EXPECT_EQ(bare.asked, 0);
}

TEST(Plan, OrderIsSetOnlyWhereItIsAsked) {
  RunOptions options;
  options.order = "pci";
  EXPECT_EQ(Case{}.settings(options).at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  options.order = "fastest";
  EXPECT_EQ(Case{}.settings(options).at("CUDA_DEVICE_ORDER"), "FASTEST_FIRST");
  options.devices = "2,0";
  const Settings alike = Case{}.settings(options);
  EXPECT_EQ(alike.at("CUDA_VISIBLE_DEVICES"), "2,0");
  const Settings unlike = Case{.host = mixed()}.settings(options);
  EXPECT_EQ(unlike.at("CUDA_VISIBLE_DEVICES"), "GPU-b2,GPU-a0");
  EXPECT_EQ(unlike.at("CUDA_DEVICE_ORDER"), "FASTEST_FIRST");
}

TEST(Plan, OptionsThatNeedDevicesSaySo) {
  RunOptions options;
  options.numbering = "view";
  EXPECT_EQ(Case{}.error(options), "--numbering: goes with --devices; write --devices all for every GPU");
  options.numbering.reset();
  options.ignore_mask = true;
  EXPECT_EQ(Case{}.error(options), "--ignore-mask: goes with --devices; write --devices all for every GPU");
}

TEST(Plan, AGpuThatDoesNotAnswerCanBeLeftOut) {
  Case lost;
  lost.host.gpus[1] = HostGpu{};
  lost.host.gpus[1].gpu.host_index = 1;
  lost.host.gpus[1].unreadable = "GPU is lost";
  EXPECT_EQ(lost.error(devices("all")),
            "--devices all: host GPU 1 doesn't answer (GPU is lost); leave it out: all,-1");
  EXPECT_EQ(lost.settings(devices("-1")).at("CUDA_VISIBLE_DEVICES"), "0,2,3");
  EXPECT_EQ(lost.settings({}).at("GPUFENCE_GPUS"), "GPU-a0,,GPU-b2,GPU-b3");
}

const Variables kOuter{
    "GPUFENCE_RUN=20300101-000000-1", "GPUFENCE_VIEW=GPU-b2,GPU-a0", "GPUFENCE_NUMBERING=host",
    "CUDA_VISIBLE_DEVICES=2,0",       "GPUFENCE_MASK=2,0",           "CUDA_DEVICE_ORDER=PCI_BUS_ID"};

Variables outer(const Variables& more) {
  Variables all = kOuter;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Plan, ARunInsideARunStaysInItsView) {
  EXPECT_EQ((Case{.environment = kOuter}.settings(devices("0")).at("GPUFENCE_VIEW")), "GPU-a0");
  EXPECT_EQ((Case{.environment = kOuter}.error(devices("1"))),
            "--devices 1: host GPU 1 is outside CUDA_VISIBLE_DEVICES=2,0, which was inherited; choose among "
            "host GPUs 2,0");
  RunOptions options = devices("1");
  options.ignore_mask = true;
  EXPECT_EQ((Case{.environment = kOuter}.error(options)),
            "--devices 1: host GPU 1 is outside the outer run's view, host GPUs 2,0, which was inherited; "
            "choose among host GPUs 2,0");
  EXPECT_EQ((Case{.environment = kOuter}.plan({})->needs_fence), "GPUFENCE_VIEW");
}

TEST(Plan, InsideAViewNumberingNumbersArePositions) {
  Case inner{.environment = {"GPUFENCE_RUN=1", "GPUFENCE_VIEW=GPU-b2,GPU-a0", "GPUFENCE_NUMBERING=view",
                             "CUDA_VISIBLE_DEVICES=0,1", "GPUFENCE_MASK=0,1"}};
  const Settings settings = inner.settings(devices("0"));
  EXPECT_EQ(settings.at("GPUFENCE_VIEW"), "GPU-b2");
  EXPECT_EQ(settings.at("CUDA_VISIBLE_DEVICES"), "0");
  EXPECT_EQ(settings.at("GPUFENCE_NUMBERING"), "view");
  EXPECT_EQ(inner.settings(devices("host:0")).at("GPUFENCE_VIEW"), "GPU-a0");
  EXPECT_FALSE(inner.plan(devices("2")));
}

TEST(Plan, AMaskThatTheOuterProgramWroteIsReadWithinTheView) {
  Variables environment = kOuter;
  environment[3] = "CUDA_VISIBLE_DEVICES=0";
  EXPECT_EQ((Case{.environment = environment}.settings(devices("all")).at("GPUFENCE_VIEW")), "GPU-a0");
  environment[3] = "CUDA_VISIBLE_DEVICES=0,1,2";
  EXPECT_EQ((Case{.environment = environment}.settings(devices("all")).at("GPUFENCE_VIEW")), "GPU-a0");
  environment[3] = "CUDA_VISIBLE_DEVICES=1";
  EXPECT_FALSE((Case{.environment = environment}.plan(devices("all"))));
}

TEST(Plan, OfTwoRunsTheTighterCapRules) {
  EXPECT_EQ(
      (Case{.environment = outer({"GPUFENCE_GPU_MEM=4GiB"})}.plan(memory("8GiB"))->run_cap.rules.at(0).bytes),
      4 * kGiB);
  EXPECT_EQ(
      (Case{.environment = outer({"GPUFENCE_GPU_MEM=8GiB"})}.settings(memory("4GiB")).at("GPUFENCE_GPU_MEM")),
      "4GiB");
  EXPECT_EQ(
      (Case{.environment = outer({"GPUFENCE_GPU_MEM=8GiB"})}.settings(memory("50%")).at("GPUFENCE_GPU_MEM")),
      "8GiB&50%");
  EXPECT_EQ((Case{.environment = outer({"GPUFENCE_GPU_MEM=8GiB"})}
                 .settings(memory("unlimited"))
                 .count("GPUFENCE_GPU_MEM")),
            0u);
}

TEST(Plan, AnInheritedCapStaysWithItsGpu) {
  // Position 1 of the outer view, host GPU 0, is position 0 of the inner one.
  Case inner{.environment = outer({"GPUFENCE_GPU_MEM=0=8GiB,1=4GiB"})};
  EXPECT_EQ(inner.settings(devices("0")).at("GPUFENCE_GPU_MEM"), "0=4GiB");
  EXPECT_EQ(inner.settings(devices("0,2")).at("GPUFENCE_GPU_MEM"), "0=4GiB,1=8GiB");
  RunOptions options = devices("0,2");
  options.gpu_mem = "6GiB";
  EXPECT_EQ(inner.settings(options).at("GPUFENCE_GPU_MEM"), "6GiB,0=4GiB,1=6GiB");
  // Without an outer view the positions were CUDA's own order, fastest first.
  Case unmasked{.host = mixed(), .environment = {"GPUFENCE_RUN=1", "GPUFENCE_GPU_MEM=0=8GiB"}};
  EXPECT_EQ(unmasked.settings(devices("0,2")).at("GPUFENCE_GPU_MEM"), "1=8GiB");
  EXPECT_EQ(unmasked.asked, 1);
}

TEST(Plan, CapsByPositionKeepTheirGpus) {
  EXPECT_EQ(Case{}.settings(memory("0=8GiB")).at("GPUFENCE_POSITIONS"), "GPU-a0,GPU-a1,GPU-b2,GPU-b3");
  EXPECT_EQ(
      (Case{.environment = {"CUDA_VISIBLE_DEVICES=3,1"}}.settings(memory("1=8GiB")).at("GPUFENCE_POSITIONS")),
      "GPU-b3,GPU-a1");
  Case by_speed{.host = mixed()};
  EXPECT_EQ(by_speed.settings(memory("0=8GiB")).at("GPUFENCE_POSITIONS"), "GPU-b2,GPU-a0,GPU-a1");
  EXPECT_EQ(by_speed.asked, 1);
  EXPECT_EQ((Case{.host = mixed(), .environment = {"CUDA_VISIBLE_DEVICES=0,2"}}
                 .settings(memory("0=8GiB"))
                 .at("GPUFENCE_POSITIONS")),
            "GPU-b2,GPU-a1");
  RunOptions by_pci = memory("0=8GiB");
  by_pci.order = "pci";
  EXPECT_EQ((Case{.host = mixed(), .environment = {"CUDA_VISIBLE_DEVICES=0,2"}}.settings(by_pci).at(
                "GPUFENCE_POSITIONS")),
            "GPU-a0,GPU-b2");
  RunOptions process;
  process.gpu_mem_per_process = "2=1GiB";
  EXPECT_EQ(Case{}.settings(process).at("GPUFENCE_POSITIONS"), "GPU-a0,GPU-a1,GPU-b2,GPU-b3");
}

TEST(Plan, PositionsAreSaidOnlyWhereNoViewSaysThem) {
  const Variables stale{"GPUFENCE_POSITIONS=GPU-b3"};
  RunOptions viewed = devices("2,0");
  viewed.gpu_mem = "0=8GiB";
  EXPECT_EQ(Case{}.settings(viewed).count("GPUFENCE_POSITIONS"), 0u);
  EXPECT_EQ((Case{.environment = stale}.settings(viewed).at("GPUFENCE_POSITIONS")), "(unset)");
  EXPECT_EQ((Case{.environment = stale}.settings(memory("8GiB")).at("GPUFENCE_POSITIONS")), "(unset)");
  EXPECT_EQ((Case{.environment = stale}.settings(memory("0=8GiB")).at("GPUFENCE_POSITIONS")),
            "GPU-a0,GPU-a1,GPU-b2,GPU-b3");
  EXPECT_EQ((Case{.environment = kOuter}.settings(memory("0=8GiB")).count("GPUFENCE_POSITIONS")), 0u);
}

TEST(Plan, AnInheritedCapByPositionStaysWithItsGpuWhateverTheMaskIsNow) {
  // The outer run capped GPU-a1 and GPU-b3; its program then narrowed the mask to the latter.
  const Variables outer_run{"GPUFENCE_RUN=1", "GPUFENCE_GPU_MEM=1=4GiB,3=2GiB",
                            "GPUFENCE_POSITIONS=GPU-a0,GPU-a1,GPU-b2,GPU-b3", "CUDA_VISIBLE_DEVICES=3"};
  const Settings settings = Case{.environment = outer_run}.settings(memory("0=3GiB"));
  EXPECT_EQ(settings.at("GPUFENCE_POSITIONS"), "GPU-b3,GPU-a0,GPU-a1,GPU-b2");
  EXPECT_EQ(settings.at("GPUFENCE_GPU_MEM"), "0=2GiB,2=4GiB");
  EXPECT_EQ((Case{.environment = outer_run}.settings(devices("3")).at("GPUFENCE_GPU_MEM")), "0=2GiB");
}

TEST(Plan, PositionsThatCannotBeToldAreAnError) {
  const AskOrder mute = [](Order) { return tl::unexpected(std::string("no answer")); };
  const auto plan = make_plan(memory("0=8GiB"), Environment(), mixed(), mute);
  ASSERT_FALSE(plan);
  EXPECT_EQ(
      plan.error().text(),
      "--gpu-mem: which GPUs its positions mean can't be told (no answer); name the GPUs with --devices");
  EXPECT_TRUE(make_plan(memory("8GiB"), Environment(), mixed(), mute));
}

TEST(Plan, WhatTheCommandLineSetIsNotCalledInherited) {
  Case here{.environment = {"CUDA_VISIBLE_DEVICES=2"}};
  RunOptions options = devices("0");
  options.env = {"CUDA_VISIBLE_DEVICES=2"};
  EXPECT_EQ(
      here.error(options),
      "--devices 0: host GPU 0 is outside CUDA_VISIBLE_DEVICES=2, set by --env; choose among host GPUs 2, "
      "or leave it with --ignore-mask");
  options.devices.reset();
  EXPECT_EQ(here.plan(options)->visible_by, "CUDA_VISIBLE_DEVICES=2, set by --env");
}

TEST(Plan, AnOffThatTheCommandLineSetsBesideAViewOrCapIsAnError) {
  for (const char* setting : {"GPUFENCE=off", "GPUFENCE_MODE=off"}) {
    Case off{.environment = {setting}};
    RunOptions options = devices("0");
    EXPECT_EQ(off.plan(options)->settings.back().second, std::nullopt);
    options.env = {setting};
    EXPECT_EQ(off.error(options),
              std::string("--env ") + setting +
                  ": turns off the fence that --devices 0 needs; leave one of the two out");
    options = memory("8GiB");
    options.env = {setting};
    EXPECT_EQ(off.error(options), std::string("--env ") + setting +
                                      ": turns off the fence that --gpu-mem needs; leave one of the two out");
    options.gpu_mem.reset();
    EXPECT_TRUE(off.plan(options));
  }
}

TEST(Plan, TellsWhatDecidesACap) {
  const auto plan = Case{.environment = outer({"GPUFENCE_GPU_MEM=0=2GiB"})}.plan(memory("4GiB"));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->run_cap.decided_by(0, 80 * kGiB), "inherited GPUFENCE_GPU_MEM");
  EXPECT_EQ(plan->run_cap.decided_by(1, 80 * kGiB), "--gpu-mem");
}

TEST(Plan, ARemapNeedsTheFenceAndIsWrittenInOrder) {
  RunOptions options = devices("2,0");
  options.remap = "3=1,1=0";
  EXPECT_EQ(Case{}.settings(options).at("GPUFENCE_REMAP"), "1=0,3=1");
  options.devices.reset();
  EXPECT_EQ(Case{}.plan(options)->needs_fence, "--remap");
  EXPECT_EQ(Case{}.settings(options).size(), 2u);  // the view and the mask stay as they are
  options.remap = "wrap";
  EXPECT_EQ(Case{}.settings(options).at("GPUFENCE_REMAP"), "wrap");
}

TEST(Plan, ARemapLeadsIntoTheView) {
  RunOptions options = devices("2,0");
  options.remap = "1=2";
  EXPECT_EQ(Case{}.error(options),
            "--remap 1=2: ordinal 2 is beyond the view, which has 2 GPUs; ordinals to map to are 0 to 1");
  options.devices = "2";
  options.remap = "3=1";
  EXPECT_EQ(Case{}.error(options),
            "--remap 3=1: ordinal 1 is beyond the view, which has 1 GPU; ordinals to map to are 0 to 0");
  options.devices.reset();
  options.remap = "9=3";
  EXPECT_TRUE(Case{}.plan(options));
  Case masked{.environment = {"CUDA_VISIBLE_DEVICES=1,0"}};
  EXPECT_EQ(masked.error(options),
            "--remap 9=3: ordinal 3 is beyond the view, which has 2 GPUs; ordinals to map to are 0 to 1");
}

TEST(Plan, AnInheritedRemapHoldsUnlessThereIsOneOfItsOwn) {
  Case inherited{.environment = {"GPUFENCE_REMAP=1=0"}};
  EXPECT_EQ(inherited.plan(devices("0"))->remap_by, "GPUFENCE_REMAP");
  EXPECT_EQ(inherited.plan({})->needs_fence, "GPUFENCE_REMAP");
  RunOptions options;
  options.remap = "2=0";
  EXPECT_EQ(inherited.settings(options).at("GPUFENCE_REMAP"), "2=0");
  EXPECT_EQ(
      (Case{.environment = {"GPUFENCE_REMAP=1="}}.error({})),
      "GPUFENCE_REMAP 1=: has '' where an ordinal belongs; write A=B,… with ordinals, such as 1=0, or wrap");
  EXPECT_TRUE((Case{.environment = {"GPUFENCE_REMAP="}}.plan({})));
}

TEST(Plan, AnOuterViewOfAnotherMachineIsAnError) {
  EXPECT_EQ((Case{.environment = {"GPUFENCE_VIEW=GPU-zz"}}.error(devices("0"))),
            "GPUFENCE_VIEW: 'GPU-zz', inherited from an outer run, is no GPU of this machine; start it "
            "outside of that run, or "
            "unset GPUFENCE_VIEW and GPUFENCE_MASK");
}

}  // namespace
}  // namespace gpufence::command
