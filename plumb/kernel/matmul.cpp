// Product: oneDNN for float, plain loops for double. (The cutting of big products is in matmul_cut.cpp.)
#include "plumb/kernel/matmul.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <type_traits>

#include "plumb/base/error.h"
#include "plumb/base/signals.h"
#include "plumb/tensor/rounding.h"
#include "plumb/kernel/row_product.h"

// OpenMP's, from the runtime that oneDNN uses. Declared here so that we compile without -fopenmp.
extern "C" void omp_set_num_threads(int);

namespace plumb {

// ---- shapes

std::string ProductShape::text() const {
  return fmt::format("A{} ({}, {}) x B{} ({}, {}) -> C ({}, {})", trans_a ? "^T" : "", trans_a ? k : m,
                     trans_a ? m : k, trans_b ? "^T" : "", trans_b ? n : k, trans_b ? k : n, m, n);
}

ProductShape ProductShape::resolved() const {
  if (m < 0 || n < 0 || k < 0) fail("[matmul] a size is negative: {}", text());
  ProductShape s = *this;
  const auto fill = [&](const char* who, std::int64_t& stride, std::int64_t columns) {
    if (stride == 0) stride = std::max<std::int64_t>(columns, 1);
    if (stride < columns)
      fail("[matmul] {}'s row stride is {}, its rows have {} elements: {}", who, stride, columns, text());
  };
  fill("A", s.lda, trans_a ? m : k);
  fill("B", s.ldb, trans_b ? k : n);
  fill("C", s.ldc, n);
  if (steady_rows && (trans_a || !trans_b || accumulate))
    fail("[matmul] rows are steady for C = A B^T alone: {}", text());
  return s;
}

namespace {

/// C where there is nothing to sum: 0 or the old C, plus the bias.
template <class R>
void empty_product(const ProductShape& s, const R* bias, R* c) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    R* row = c + i * s.ldc;
    if (!s.accumulate) std::fill(row, row + s.n, R(0));
    if (s.bias)
      for (std::int64_t j = 0; j < s.n; ++j) row[j] += bias[j];
  }
}

// ---- double: plain loops. op(B) is copied in panels of `depth` x `width`, so that all four layouts share
// one inner loop over adjacent memory. Panels of k are visited in ascending order and continue from C:
// blocking changes no bit.

constexpr std::int64_t panel_depth = 128, panel_width = 4;

void pack_b(const ProductShape& s, const double* b, std::int64_t k0, std::int64_t depth, std::int64_t j0,
            std::int64_t width, double* panel) {
  for (std::int64_t p = 0; p < depth; ++p)
    for (std::int64_t j = 0; j < panel_width; ++j) {
      const std::int64_t row = s.trans_b ? j0 + j : k0 + p, column = s.trans_b ? k0 + p : j0 + j;
      panel[p * panel_width + j] = j < width ? b[row * s.ldb + column] : 0;
    }
}

/// Rows i0 … i0 + rows - 1 of C at once: each read of the panel serves them all.
template <int rows>
void multiply_rows(const ProductShape& s, const double* a, std::int64_t i0, std::int64_t k0,
                   std::int64_t depth, std::int64_t j0, std::int64_t width, const double* panel, double* c) {
  const std::int64_t step = s.trans_a ? s.lda : 1;
  double sum[rows][panel_width] = {};
  const double* x[rows];
  for (int r = 0; r < rows; ++r) {
    x[r] = s.trans_a ? a + k0 * s.lda + i0 + r : a + (i0 + r) * s.lda + k0;
    if (k0 > 0 || s.accumulate)
      for (std::int64_t j = 0; j < width; ++j) sum[r][j] = c[(i0 + r) * s.ldc + j0 + j];
  }
  for (std::int64_t p = 0; p < depth; ++p)
    for (int r = 0; r < rows; ++r) {
      const double xr = x[r][p * step];
      for (std::int64_t j = 0; j < panel_width; ++j) sum[r][j] += xr * panel[p * panel_width + j];
    }
  for (int r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < width; ++j) c[(i0 + r) * s.ldc + j0 + j] = sum[r][j];
}

void multiply_panel(const ProductShape& s, const double* a, std::int64_t k0, std::int64_t depth,
                    std::int64_t j0, std::int64_t width, const double* panel, double* c) {
  std::int64_t i = 0;
  for (; i + 4 <= s.m; i += 4) multiply_rows<4>(s, a, i, k0, depth, j0, width, panel, c);
  for (; i < s.m; ++i) multiply_rows<1>(s, a, i, k0, depth, j0, width, panel, c);
}

void plain_product(const ProductShape& s, const double* a, const double* b, const double* bias, double* c) {
  double panel[panel_depth * panel_width];
  for (std::int64_t j0 = 0; j0 < s.n; j0 += panel_width) {
    const std::int64_t width = std::min(panel_width, s.n - j0);
    for (std::int64_t k0 = 0; k0 < s.k; k0 += panel_depth) {
      const std::int64_t depth = std::min(panel_depth, s.k - k0);
      pack_b(s, b, k0, depth, j0, width, panel);
      multiply_panel(s, a, k0, depth, j0, width, panel, c);
    }
  }
  if (s.bias)
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) c[i * s.ldc + j] += bias[j];
}

// ---- float: oneDNN

void check(dnnl_status_t status, const char* what, const ProductShape& s) {
  if (status != dnnl_success)
    fail("[matmul] oneDNN's {} returned status {}: {}", what, static_cast<int>(status), s.text());
}

/// Once a thread: the setting belongs to the thread, one made on the main thread does not reach the workers.
void one_openmp_thread() {
  thread_local const bool done = (omp_set_num_threads(1), true);
  (void)done;
}

/// One for the process, never destroyed: products may outlive any static of ours.
dnnl_engine_t engine() {
  static const dnnl_engine_t e = [] {
    dnnl_engine_t made = nullptr;
    check(dnnl_engine_create(&made, dnnl_cpu, 0), "dnnl_engine_create", {});
    return made;
  }();
  return e;
}

/// A small number that differs between threads alive at the same time, as far as there are slots.
std::size_t thread_ordinal() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

enum Arg : std::size_t { arg_a, arg_b, arg_c, arg_bias, arg_scratch, n_arg };
constexpr std::array<int, n_arg> arg_id = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS,
                                           DNNL_ARG_SCRATCHPAD};

/// What one worker needs to execute: a stream and the memory handles, whose pointers change with every call.
struct alignas(64) Slot {
  std::atomic<bool> busy{false};
  dnnl_stream_t stream = nullptr;
  std::array<dnnl_memory_t, n_arg> memory{};

  ~Slot() {
    for (dnnl_memory_t m : memory)
      if (m) dnnl_memory_destroy(m);
    if (stream) dnnl_stream_destroy(stream);
  }
};

constexpr std::size_t n_slot = 32;  // more workers than this in one product take turns

struct Primitive {
  dnnl_primitive_t handle = nullptr;
  std::array<dnnl_memory_desc_t, n_arg> desc{};
  std::array<bool, n_arg> used{};
  std::size_t scratch = 0;
  std::string name;
  std::array<Slot, n_slot> slots;

  explicit Primitive(const ProductShape&);
  ~Primitive() {
    if (handle) dnnl_primitive_destroy(handle);
  }
  Slot& claim(const ProductShape&);
  void execute(const ProductShape&, const float* a, const float* b, const float* bias, float* c,
               void* scratch);
};

void matrix(dnnl_memory_desc_t& d, std::int64_t rows, std::int64_t columns, bool transposed,
            std::int64_t stride, const ProductShape& s) {
  const dnnl_dims_t dims = {rows, columns};
  const dnnl_dims_t strides = {transposed ? 1 : stride, transposed ? stride : 1};
  check(dnnl_memory_desc_init_by_strides(&d, 2, dims, dnnl_f32, strides), "dnnl_memory_desc_init_by_strides",
        s);
}

/// Owns a handle that is only needed while a primitive is made.
template <class T, dnnl_status_t (*destroy)(T)>
struct Owned {
  T handle = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  ~Owned() {
    if (handle) destroy(handle);
  }
};

Primitive::Primitive(const ProductShape& s) {
  one_openmp_thread();
  matrix(desc[arg_a], s.m, s.k, s.trans_a, s.lda, s);
  matrix(desc[arg_b], s.k, s.n, s.trans_b, s.ldb, s);
  matrix(desc[arg_c], s.m, s.n, false, s.ldc, s);
  if (s.bias) matrix(desc[arg_bias], 1, s.n, false, s.n, s);
  used = {true, true, true, s.bias, false};

  Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attr;
  check(dnnl_primitive_attr_create(&attr.handle), "dnnl_primitive_attr_create", s);
  check(dnnl_primitive_attr_set_scratchpad_mode(attr.handle, dnnl_scratchpad_mode_user),
        "set_scratchpad_mode", s);
  if (s.accumulate) {
    Owned<dnnl_post_ops_t, dnnl_post_ops_destroy> ops;
    check(dnnl_post_ops_create(&ops.handle), "dnnl_post_ops_create", s);
    check(dnnl_post_ops_append_sum(ops.handle, 1.0F), "dnnl_post_ops_append_sum", s);
    check(dnnl_primitive_attr_set_post_ops(attr.handle, ops.handle), "set_post_ops", s);
  }
  dnnl_matmul_desc_t op;
  check(dnnl_matmul_desc_init(&op, &desc[arg_a], &desc[arg_b], s.bias ? &desc[arg_bias] : nullptr,
                              &desc[arg_c]),
        "dnnl_matmul_desc_init", s);
  Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy> pd;
  check(dnnl_primitive_desc_create(&pd.handle, &op, attr.handle, engine(), nullptr),
        "dnnl_primitive_desc_create", s);

  const char* chosen = nullptr;
  check(dnnl_primitive_desc_query(pd.handle, dnnl_query_impl_info_str, 0, &chosen),
        "dnnl_query_impl_info_str", s);
  name = chosen;
  const dnnl_memory_desc_t* pad = dnnl_primitive_desc_query_md(pd.handle, dnnl_query_scratchpad_md, 0);
  scratch = pad ? dnnl_memory_desc_get_size(pad) : 0;
  if (scratch > 0) {
    desc[arg_scratch] = *pad;
    used[arg_scratch] = true;
  }
  check(dnnl_primitive_create(&handle, pd.handle), "dnnl_primitive_create", s);
}

/// A free slot, the thread's own first. Its handles are made the first time it is used.
Slot& Primitive::claim(const ProductShape& s) {
  for (std::size_t i = thread_ordinal();; ++i) {
    Slot& slot = slots[i % n_slot];
    if (slot.busy.load(std::memory_order_relaxed) || slot.busy.exchange(true, std::memory_order_acquire)) {
      if (i % n_slot == n_slot - 1) std::this_thread::yield();
      continue;
    }
    if (!slot.stream) {
      for (std::size_t arg = 0; arg < n_arg; ++arg)
        if (used[arg])
          check(dnnl_memory_create(&slot.memory[arg], &desc[arg], engine(), DNNL_MEMORY_NONE),
                "dnnl_memory_create", s);
      check(dnnl_stream_create(&slot.stream, engine(), dnnl_stream_default_flags), "dnnl_stream_create", s);
    }
    return slot;
  }
}

void Primitive::execute(const ProductShape& s, const float* a, const float* b, const float* bias, float* c,
                        void* scratchpad) {
  one_openmp_thread();
  Slot& slot = claim(s);
  // oneDNN takes every pointer as `void*`; it writes only to the destination and the scratchpad.
  const std::array<void*, n_arg> pointer = {const_cast<float*>(a), const_cast<float*>(b), c,
                                            const_cast<float*>(bias), scratchpad};
  std::array<dnnl_exec_arg_t, n_arg> args;
  int n = 0;
  dnnl_status_t status = dnnl_success;
  for (std::size_t arg = 0; arg < n_arg && status == dnnl_success; ++arg)
    if (used[arg]) {
      status = dnnl_memory_set_data_handle_v2(slot.memory[arg], pointer[arg], slot.stream);
      args[static_cast<std::size_t>(n++)] = {arg_id[arg], slot.memory[arg]};
    }
  {
    // Its generated AVX2 code points the stack pointer into a heap workspace: a signal handler that ran there
    // would write its frame over what lies below (seen as a corrupted heap after one Ctrl-C in eight).
    const HoldSignals hold;
    if (status == dnnl_success) status = dnnl_primitive_execute(handle, slot.stream, n, args.data());
    if (status == dnnl_success) status = dnnl_stream_wait(slot.stream);
  }
  slot.busy.store(false, std::memory_order_release);
  check(status, "dnnl_primitive_execute", s);
}

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
std::size_t floats(std::int64_t n) { return round_up(static_cast<std::size_t>(n) * sizeof(float)); }

}  // namespace

// ---- Product

/// The shape of a product whose operands were copied without gaps.
ProductShape compact(ProductShape s) {
  s.lda = s.trans_a ? s.m : s.k;
  s.ldb = s.trans_b ? s.k : s.n;
  return s;
}

template <class R>
struct Product<R>::Impl {
  ProductShape shape;
  ProductShape inner() const { return rounds() ? compact(shape) : shape; }
  bool rounds() const { return std::is_same_v<R, float> && shape.operands != Format::fp32; }
  std::unique_ptr<Primitive> primitive;  // float only, and only where there is something to sum
};

template <class R>
Product<R>::Product(const ProductShape& shape) : impl_(std::make_unique<Impl>()) {
  impl_->shape = shape.resolved();
  const ProductShape& s = impl_->shape;
  if (std::is_same_v<R, float> && !s.steady_rows && s.m > 0 && s.n > 0 && s.k > 0)
    impl_->primitive = std::make_unique<Primitive>(impl_->inner());
}
template <class R>
Product<R>::~Product() = default;
template <class R>
Product<R>::Product(Product&&) noexcept = default;
template <class R>
Product<R>& Product<R>::operator=(Product&&) noexcept = default;

template <class R>
const ProductShape& Product<R>::shape() const {
  return impl_->shape;
}

template <class R>
std::size_t Product<R>::scratch_bytes() const {
  const ProductShape& s = impl_->shape;
  const std::size_t copies = impl_->rounds() ? floats(s.m * s.k) + floats(s.n * s.k) : 0;
  return copies + (impl_->primitive ? round_up(impl_->primitive->scratch) : 0);
}

template <class R>
std::string Product<R>::impl() const {
  if (impl_->primitive) return impl_->primitive->name;
  return std::is_same_v<R, float> && impl_->shape.steady_rows ? "rows" : "plain";
}

template <class R>
void Product<R>::run(const R* a, const R* b, const R* bias, R* c, void* scratch) const {
  const ProductShape& s = impl_->shape;
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) return empty_product(s, bias, c);
  if constexpr (std::is_same_v<R, double>) {
    plain_product(s, a, b, bias, c);  // its rows are steady as they are
  } else {
    if (impl_->rounds()) {
      auto* at = static_cast<std::byte*>(scratch);
      const auto copy = [&](const float* from, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
        const View<float> to{reinterpret_cast<float*>(at), rows, cols, cols};
        for (std::int64_t i = 0; i < rows; ++i) std::copy_n(from + i * stride, cols, to.row(i));
        round_to(s.operands, to);
        at += floats(rows * cols);
        return to.data;
      };
      a = s.trans_a ? copy(a, s.k, s.m, s.lda) : copy(a, s.m, s.k, s.lda);
      b = s.trans_b ? copy(b, s.n, s.k, s.ldb) : copy(b, s.k, s.n, s.ldb);
      scratch = at;
    }
    if (s.steady_rows)
      row_product(impl_->inner(), a, b, bias, c);
    else
      impl_->primitive->execute(s, a, b, bias, c, scratch);
  }
}

template class Product<float>;
template class Product<double>;

}  // namespace plumb
