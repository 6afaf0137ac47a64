// The seven questions that one asks of an implementation one does not know, and two more, each with what
// decides it.
#pragma once
#include "plumb/interop/subject.h"

namespace plumb {

/// "unknown" where neither config nor tensors decide.
struct Answer {
  std::string value = "unknown";
  std::string because;  // a clause
};

Answer placement_of(Subject& s);        // pre post sandwich post_branch parallel
Answer norm_of(Subject& s);             // layer rms
Answer final_norm_of(Subject& s);       // true false
Answer position_of(Subject& s);         // learned rope alibi, or as the config calls it
Answer attention_of(const Subject& s);  // mha gqa mqa
Answer ffn_of(const Subject& s);  // gelu gelu_tanh relu silu swiglu geglu reglu moe; mlp, glu: two or three
                                  // matrices, activation unknown
Answer qk_norm_of(const Subject& s);  // none rms rms_all layer
Answer tied_of(Subject& s);           // true false; compares the bytes of embedding and head

}  // namespace plumb
