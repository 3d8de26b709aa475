// The stand-in CUPTI: the callback API as NVIDIA documents it (cupti_callbacks.h), for the runtime domain.
// One subscriber at a time; the stand-in runtimes tell of their calls through the simulated driver
// (driver/tools.h). Every other function of CUPTI exists and answers CUPTI_ERROR_NOT_SUPPORTED (defaults,
// made from the headers).
#define CUPTI_LIB  // the headers then make what they declare visible
#include <cupti.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "tests/sim/driver/tools.h"

using gpufence::sim::kToolsTableId;
using gpufence::sim::ToldCall;
using gpufence::sim::ToolsTable;

// In static storage: a call that was told of its beginning may end after its subscriber has left.
struct CUpti_Subscriber_st {
  std::atomic<bool> taken{false}, live{false};
  std::atomic<CUpti_CallbackFunc> callback{nullptr};
  std::atomic<void*> userdata{nullptr};
  std::atomic<bool> enabled[CUPTI_RUNTIME_TRACE_CBID_SIZE]{};
};

namespace {

constinit CUpti_Subscriber_st the_subscriber{};

// CUPTI needs a driver that is at least as new as itself. Null: none that this library goes with.
ToolsTable* tools() {
  static ToolsTable* const found = []() -> ToolsTable* {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return nullptr;
    const auto version =
        reinterpret_cast<decltype(&::cuDriverGetVersion)>(dlsym(library, "cuDriverGetVersion"));
    const auto table = reinterpret_cast<decltype(&::cuGetExportTable)>(dlsym(library, "cuGetExportTable"));
    int known = 0;
    if (version == nullptr || table == nullptr || version(&known) != CUDA_SUCCESS) return nullptr;
    if (known < CUDA_VERSION / 1000 * 1000) return nullptr;
    CUuuid id;
    std::memcpy(id.bytes, kToolsTableId, sizeof id.bytes);
    const void* told = nullptr;
    return table(&told, &id) == CUDA_SUCCESS ? static_cast<ToolsTable*>(const_cast<void*>(told)) : nullptr;
  }();
  return found;
}

bool is_subscriber(CUpti_SubscriberHandle subscriber) {
  return subscriber == &the_subscriber && subscriber->live.load();
}

void listen(const ToldCall& call) {
  if (!the_subscriber.live.load(std::memory_order_acquire) || call.cbid >= CUPTI_RUNTIME_TRACE_CBID_SIZE ||
      !the_subscriber.enabled[call.cbid].load(std::memory_order_relaxed))
    return;
  CUpti_CallbackData data{};
  data.callbackSite = call.returned ? CUPTI_API_EXIT : CUPTI_API_ENTER;
  data.functionName = call.name;
  data.functionParams = call.params;
  data.functionReturnValue = call.returned ? call.result : nullptr;
  data.symbolName = call.symbol;
  data.context = static_cast<CUcontext>(tools()->current_context());
  data.correlationData = call.correlation;
  the_subscriber.callback.load()(the_subscriber.userdata.load(), CUPTI_CB_DOMAIN_RUNTIME_API, call.cbid,
                                 &data);
}

void leave() {
  the_subscriber.live.store(false);
  tools()->listener.store(nullptr);
  for (auto& enabled : the_subscriber.enabled) enabled.store(false);
  the_subscriber.taken.store(false);
}

const char* name_of(CUptiResult result) {
  switch (result) {
    case CUPTI_SUCCESS:
      return "CUPTI_SUCCESS";
    case CUPTI_ERROR_INVALID_PARAMETER:
      return "CUPTI_ERROR_INVALID_PARAMETER";
    case CUPTI_ERROR_NOT_INITIALIZED:
      return "CUPTI_ERROR_NOT_INITIALIZED";
    case CUPTI_ERROR_NOT_SUPPORTED:
      return "CUPTI_ERROR_NOT_SUPPORTED";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
    default:
      return nullptr;
  }
}

}  // namespace

CUptiResult cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  if (text == nullptr || name_of(result) == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *text = name_of(result);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* userdata) {
  if (subscriber == nullptr || callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (tools() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  if (the_subscriber.taken.exchange(true)) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  the_subscriber.callback.store(callback);
  the_subscriber.userdata.store(userdata);
  the_subscriber.live.store(true, std::memory_order_release);
  tools()->listener.store(listen);
  *subscriber = &the_subscriber;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* userdata,
                              CUpti_SubscriberParams* params) {
  if (params != nullptr && params->structSize < CUpti_SubscriberParams_STRUCT_SIZE)
    return CUPTI_ERROR_INVALID_PARAMETER;
  return cuptiSubscribe(subscriber, callback, userdata);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  if (!is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  leave();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiFinalize() {
  if (the_subscriber.live.load()) leave();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (!is_subscriber(subscriber) || domain != CUPTI_CB_DOMAIN_RUNTIME_API ||
      cbid >= CUPTI_RUNTIME_TRACE_CBID_SIZE)
    return CUPTI_ERROR_INVALID_PARAMETER;
  subscriber->enabled[cbid].store(enable != 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackState(uint32_t* enable, CUpti_SubscriberHandle subscriber,
                                  CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (enable == nullptr || !is_subscriber(subscriber) || domain != CUPTI_CB_DOMAIN_RUNTIME_API ||
      cbid >= CUPTI_RUNTIME_TRACE_CBID_SIZE)
    return CUPTI_ERROR_INVALID_PARAMETER;
  *enable = subscriber->enabled[cbid].load() ? 1 : 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                              CUpti_CallbackDomain domain) {
  if (!is_subscriber(subscriber) || domain != CUPTI_CB_DOMAIN_RUNTIME_API)
    return CUPTI_ERROR_INVALID_PARAMETER;
  for (auto& enabled : subscriber->enabled) enabled.store(enable != 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle subscriber) {
  return cuptiEnableDomain(enable, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
}

CUptiResult cuptiSupportedDomains(size_t* count, CUpti_DomainTable* table) {
  static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_RUNTIME_API};
  if (count == nullptr || table == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *count = 1;
  *table = domains;
  return CUPTI_SUCCESS;
}
