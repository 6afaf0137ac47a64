// y = x w^T + bias with bits of a row that depend on this row alone: what a forward pass without gradient
// uses.
#pragma once
#include "plumb/kernel/matmul.h"

namespace plumb {

/// C = A B^T (+ bias) for `shape.trans_b`, not `trans_a`, not `accumulate`, strides filled in. An element is
/// Σ over k in as many running sums as a vector has lanes, added by a fixed tree, + bias, whatever the number
/// of rows and wherever the row stands: a position decoded alone has the bits that it has among all. (oneDNN
/// chooses blocks of k, and kernels for the last rows, by the shape.) A single row runs at the speed of
/// memory; many rows more slowly than `Product`. 0 · NaN is NaN.
void row_product(const ProductShape& shape, const float* a, const float* b, const float* bias, float* c);

}  // namespace plumb
