// Attributes of streams. The priority is the one that changes something here; windows of the L2 cache,
// policies of waiting and domains of memory order are kept and told.
#include <cstring>

#include "driver.h"

using namespace gpufence::sim;

namespace {

template <class Body>
CUresult with_stream(const char* name, bool per_thread, CUstream handle, Body&& body) {
  return in_context(name, [&](Context& current) {
    Stream* stream = nullptr;
    const CUresult found = stream_of(handle, per_thread, current, &stream, InCapture::ignored);
    return found != CUDA_SUCCESS ? found : body(current, *stream);
  });
}

bool valid(const CUaccessPolicyWindow& window, const Device& device) {
  const auto most =
      static_cast<size_t>(device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE));
  return window.num_bytes <= most && window.hitRatio >= 0 && window.hitRatio <= 1 &&
         window.hitProp >= CU_ACCESS_PROPERTY_NORMAL && window.hitProp <= CU_ACCESS_PROPERTY_PERSISTING &&
         (window.missProp == CU_ACCESS_PROPERTY_NORMAL || window.missProp == CU_ACCESS_PROPERTY_STREAMING);
}

int domain_count(const Stream& stream) {
  return device_attribute(*stream.context->device, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
}

CUresult set(Stream& stream, CUstreamAttrID which, const CUstreamAttrValue& value) {
  const Device& device = *stream.context->device;
  StreamAttributes& kept = stream.attributes;
  switch (which) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      if (!valid(value.accessPolicyWindow, device)) return CUDA_ERROR_INVALID_VALUE;
      kept.window = value.accessPolicyWindow;
      return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      if (value.syncPolicy < CU_SYNC_POLICY_AUTO || value.syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
      kept.policy = value.syncPolicy;
      return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_PRIORITY:
      stream.priority = clamped_priority(value.priority);
      return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      if (value.memSyncDomainMap.default_ >= domain_count(stream) ||
          value.memSyncDomainMap.remote >= domain_count(stream))
        return CUDA_ERROR_INVALID_VALUE;
      kept.domains = value.memSyncDomainMap;
      return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
      if (value.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT &&
          value.memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)
        return CUDA_ERROR_INVALID_VALUE;
      kept.domain = value.memSyncDomain;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult get(const Stream& stream, CUstreamAttrID which, CUstreamAttrValue& out) {
  CUstreamAttrValue value{};
  const StreamAttributes& kept = stream.attributes;
  switch (which) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      value.accessPolicyWindow = kept.window;
      break;
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      value.syncPolicy = kept.policy;
      break;
    case CU_STREAM_ATTRIBUTE_PRIORITY:
      value.priority = stream.priority;
      break;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      value.memSyncDomainMap = kept.domains.value_or(
          CUlaunchMemSyncDomainMap{0, static_cast<unsigned char>(domain_count(stream) > 1 ? 1 : 0)});
      break;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
      value.memSyncDomain = kept.domain;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  out = value;
  return CUDA_SUCCESS;
}

CUresult set_call(const char* name, bool per_thread, CUstream handle, CUstreamAttrID which,
                  const CUstreamAttrValue* value) {
  return with_stream(name, per_thread, handle, [&](Context&, Stream& stream) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard<std::mutex> held(stream.attributes.lock);
    return set(stream, which, *value);
  });
}

CUresult get_call(const char* name, bool per_thread, CUstream handle, CUstreamAttrID which,
                  CUstreamAttrValue* out) {
  return with_stream(name, per_thread, handle, [&](Context&, Stream& stream) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard<std::mutex> held(stream.attributes.lock);
    return get(stream, which, *out);
  });
}

CUresult copy_call(const char* name, bool per_thread, CUstream to_handle, CUstream from_handle) {
  return with_stream(name, per_thread, to_handle, [&](Context& current, Stream& to) {
    Stream* from = nullptr;
    if (const CUresult bad = stream_of(from_handle, per_thread, current, &from, InCapture::ignored);
        bad != CUDA_SUCCESS)
      return bad;
    if (from->context != to.context) return CUDA_ERROR_INVALID_VALUE;  // "must have the same context"
    if (from == &to) return CUDA_SUCCESS;
    std::scoped_lock held(from->attributes.lock, to.attributes.lock);
    to.attributes.window = from->attributes.window;
    to.attributes.policy = from->attributes.policy;
    to.attributes.domains = from->attributes.domains;
    to.attributes.domain = from->attributes.domain;
    to.priority = from->priority.load();
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID which, const CUstreamAttrValue* value) {
  return set_call(__func__, false, stream, which, value);
}
CUresult cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID which, const CUstreamAttrValue* value) {
  return set_call(__func__, true, stream, which, value);
}
CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID which, CUstreamAttrValue* out) {
  return get_call(__func__, false, stream, which, out);
}
CUresult cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID which, CUstreamAttrValue* out) {
  return get_call(__func__, true, stream, which, out);
}
CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  return copy_call(__func__, false, to, from);
}
CUresult cuStreamCopyAttributes_ptsz(CUstream to, CUstream from) {
  return copy_call(__func__, true, to, from);
}
