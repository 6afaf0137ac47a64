// Words for people, on standard error.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

namespace plumb::cli {

/// A terminal that hung up or a full disk behind standard error must not end what the words are about: words
/// that cannot be written are lost.
template <class... A>
void say(fmt::format_string<A...> text, A&&... args) {
  std::fputs(fmt::format(text, std::forward<A>(args)...).c_str(), stderr);
}

/// What to say of an error, in one line, and the exit status it asks for.
struct Sentence {
  std::string text;
  int exit_code = 1;
};
Sentence sentence_of(const std::exception_ptr& error);

}  // namespace plumb::cli
