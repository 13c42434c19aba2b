// Handlers of custom calls for test_ffi.py, against the header that jaxlib ships.
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// x * s and the sum of all other attributes.
static ffi::Error Attrs(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, float s, int64_t i, int32_t j,
                        uint8_t u, bool b, double d, std::string_view name, ffi::Span<const int64_t> ints,
                        ffi::Span<const float> floats, ffi::Dictionary nested) {
  auto inner = nested.get<int64_t>("a");
  auto text = nested.get<std::string_view>("t");
  if (!inner.has_value() || !text.has_value()) return ffi::Error::InvalidArgument("nothing nested");
  if (name != "he\"llo\n") return ffi::Error::InvalidArgument("name: " + std::string(name));
  double add = i + j + u + b + d + *inner + static_cast<double>(text->size());
  for (auto v : ints) add += v;
  for (auto v : floats) add += v;
  for (size_t k = 0; k < x.element_count(); k++) y->typed_data()[k] = x.typed_data()[k] * s + add;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attrs, Attrs,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("s")
                                  .Attr<int64_t>("i")
                                  .Attr<int32_t>("j")
                                  .Attr<uint8_t>("u")
                                  .Attr<bool>("b")
                                  .Attr<double>("d")
                                  .Attr<std::string_view>("name")
                                  .Attr<ffi::Span<const int64_t>>("ints")
                                  .Attr<ffi::Span<const float>>("floats")
                                  .Attr<ffi::Dictionary>("nested"));

// The operand's bytes as they lie in memory.
static ffi::Error Raw(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(raw, Raw, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

static ffi::Error Fails(ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) {
  return ffi::Error(ffi::ErrorCode::kOutOfRange, "this is out of range");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(fails, Fails, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

// Adds one where the operand is.
static ffi::Error InPlace(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (x.typed_data() != y->typed_data()) return ffi::Error::Internal("not the same memory");
  for (size_t k = 0; k < x.element_count(); k++) y->typed_data()[k] += 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(in_place, InPlace,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// What a call site keeps: made once for each.
static std::atomic<int> made{0};
struct State {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  explicit State(int64_t n) : n(n) { made++; }
  int64_t n;
};
ffi::TypeId State::id = {};
ffi::TypeInfo State::info = ffi::MakeTypeInfo<State>();
static ffi::ErrorOr<std::unique_ptr<State>> Instantiate(int64_t n) {
  if (n < 0) return ffi::Unexpected(ffi::Error::InvalidArgument("n is negative"));
  return std::make_unique<State>(n);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(state_instantiate, Instantiate, ffi::Ffi::BindInstantiate().Attr<int64_t>("n"));
static ffi::Error StateExecute(State *s, ffi::Buffer<ffi::S32> x, ffi::ResultBuffer<ffi::S32> y, int32_t device,
                               int64_t) {
  y->typed_data()[0] = x.typed_data()[0] + static_cast<int>(s->n) + 1000 * device;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(state_execute, StateExecute,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<State>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Attr<int64_t>("n"));

// Doubles on the runtime's threads, and tells by a future.
static ffi::Future Async(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, ffi::ThreadPool pool, bool bad) {
  auto promise = std::make_shared<ffi::Promise>();
  ffi::Future future(*promise);
  auto left = std::make_shared<std::atomic<int>>(8);
  const float *in = x.typed_data();
  float *out = y->typed_data();
  size_t n = x.element_count();
  for (size_t t = 0; t < 8; t++)
    pool.Schedule([=] {
      for (size_t k = t; k < n; k += 8) out[k] = in[k] * 2;
      if (--*left > 0) return;
      if (bad)
        promise->SetError(ffi::Error(ffi::ErrorCode::kDataLoss, "lost it"));
      else
        promise->SetAvailable();
    });
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(async_, Async,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<bool>("bad"));

extern "C" {
int states_made() { return made; }
void *state_type_id() { return &State::id; }
void *state_type_info() { return &State::info; }

// Untyped calls.
void untyped_add(void *out, const void **in) {
  *static_cast<float *>(out) = *static_cast<const float *>(in[0]) + *static_cast<const float *>(in[1]);
}
void untyped_two(void **out, const void **in) {
  *static_cast<float *>(out[0]) = *static_cast<const float *>(in[0]) + 1;
  *static_cast<float *>(out[1]) = *static_cast<const float *>(in[0]) + 2;
}
struct Status {
  std::optional<std::string> message;
};
void untyped_status(void *out, const void **in, Status *status) {
  float v = *static_cast<const float *>(in[0]);
  *static_cast<float *>(out) = v;
  if (v < 0) status->message = "negative, and the text is longer than sixteen bytes";
  if (v > 100) status->message = "big";
}
void untyped_unified(void *out, const void **in, const char *opaque, size_t n, Status *status) {
  *static_cast<float *>(out) = *static_cast<const float *>(in[0]) + static_cast<float>(n);
  if (n && opaque[0] == 'x') status->message = "x";
}
}
