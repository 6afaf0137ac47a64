// Words for people, on standard error.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "plumb/config/config.h"

namespace plumb::cli {

/// The name that a person typed to get here, for the commands in hints: "plumb", or what ./run says of itself
/// in PLUMB_CALLED_AS. as_called puts it into "`plumb …" and "\n  plumb …".
std::string as_called(std::string text);

/// Without control characters, whatever the words of a user or of a file in it hold.
std::string one_line(std::string text);

/// A terminal that hung up or a full disk behind standard error must not end what the words are about: words
/// that cannot be written are lost.
template <class... A>
void say(fmt::format_string<A...> text, A&&... args) {
  std::fputs(as_called(fmt::format(text, std::forward<A>(args)...)).c_str(), stderr);
}

/// Says so, where the run that is looked at has faults injected. bad_input for faults that it cannot have.
void note_faults(const Config&, bool quiet);
/// The same of a run or checkpoint of ours; nothing for somebody else's.
void note_faults_of_run(const std::string& path, bool quiet);

/// What to say of an error, in one line, and the exit status it asks for.
struct Sentence {
  std::string text;
  int exit_code = 1;
};
Sentence sentence_of(const std::exception_ptr& error);

}  // namespace plumb::cli
