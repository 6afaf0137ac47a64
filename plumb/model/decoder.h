// The decoder: the only room that combines families.
#pragma once
#include "plumb/config/config.h"
#include "plumb/model/components.h"
#include "plumb/plan/plan.h"

namespace plumb {

/// The spec of the model that `config` asks for, changed as its faults say.
DecoderSpec spec_of(const Config&, std::int64_t vocab_size, const Components&);

/// Refuses, in one sentence, a spec that names unknown components or combines what cannot be combined.
void check_spec(const DecoderSpec&, const Components&);

/// bad_input, with the place where it was written, for a component that no table has.
void check_names(const Config&, const Components&);

/// What each component's key may be.
KnownNames known_names(const Components&);

/// A sentence for each setting that other components of a family read, but not the chosen one.
std::vector<std::string> unused_settings(const Config&, const Components&);

/// The graph of the decoder for sequences of `block` positions, its loss included. Points and parameters are named as in
/// DESIGN, "Pinned names".
template <class R>
GraphOf<R> build_decoder(const DecoderSpec&, const Components&, Mode, std::int64_t block,
                         std::span<Hook<R>* const> hooks = {}, std::int64_t context = 0,
                         const LossTerms& loss = {});

/// Its parameters and states: names, roles, shapes, offsets, starts. With `context` > 0 those of a model that decodes: the
/// same parameters and saved state, and each layer's keys and values of so many positions as unsaved state.
template <class R>
ParamLayout decoder_layout(const DecoderSpec&, const Components&, std::int64_t context = 0);

/// build_decoder and Plan in one.
template <class R>
Plan<R> make_plan(const DecoderSpec&, const Components&, ParamStore<R>&, const PlanOptions&, ThreadPool&,
                  std::span<Hook<R>* const> hooks = {});

/// Parameters by part, from the built tensors. `active`: those that one token uses (experts: top_k of n_expert).
struct ParamCounts {
  std::int64_t total = 0, active = 0;
  std::int64_t embedding = 0, position = 0, attention = 0, ffn = 0, norm = 0, residual = 0, head = 0;
};
ParamCounts count_params(const DecoderSpec&, const ParamLayout&);

}  // namespace plumb
