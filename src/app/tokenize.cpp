#include <algorithm>
#include <cmath>
#include <iostream>

#include <unistd.h>

#include "atoll/app/command.hpp"
#include "atoll/data/token_file.hpp"

namespace Atoll::app {
namespace {

constexpr Manual manual{
    .synopsis = "atoll tokenize --output FILE [OPTION...] TEXT...",
    .description =
        "    Turns UTF-8 text files into one HDF5 token file, from which every island of the federation trains. The\n"
        "    end of each text is set aside for validation. The file explains itself: the tokenizer, and the name,\n"
        "    size and SHA-256 of every text, are stored in it (layout: src/data/TOKENS.md).\n\n"
        "    Without --vocabulary and --sentencepiece each byte is a token (256 of them). With --vocabulary N a\n"
        "    SentencePiece model of N byte-pair pieces is trained on the training part; equal texts give equal\n"
        "    models.\n\n"
        "    The file is written aside, synced and renamed: a full disk or a kill leaves an older one as it was.",
    .examples =
        "    atoll tokenize --output bible.h5 bible.txt\n"
        "        one token per byte\n"
        "    atoll tokenize --output docs.h5 --vocabulary 4096 --validation 0.02 docs/*.txt\n"
        "        trains a vocabulary of 4096 pieces; 2 % of each text are for validation\n"
        "    atoll tokenize --output docs.h5 --sentencepiece spm.model docs/*.txt\n"
        "        uses a model that exists\n"};

// One line that is written over again on a terminal; the stages only, one a line, elsewhere.
std::function<void(std::string_view, double)> progress_line() {
  return [terminal = ::isatty(STDERR_FILENO) != 0](std::string_view stage, double share) {
    if (terminal) {
      std::cerr << '\r' << stage << ' ' << std::lround(100 * share) << " % " << (share < 1 ? "" : "\n") << std::flush;
    } else if (share == 0) {
      std::cerr << stage << "...\n";
    }
  };
}

void print_summary(const std::string& file) {
  const data::TokenFile tokens(file);
  std::uint64_t bytes = 0;
  for (const auto& source : tokens.sources()) bytes += source.bytes;
  const double bits_per_byte = tokens.unigram_loss() / std::log(2.0) / tokens.bytes_per_token();
  std::cout << file << ": " << tokens.count(data::Part::training) << " training and "
            << tokens.count(data::Part::validation) << " validation tokens from " << tokens.sources().size()
            << " text(s) of " << bytes << " bytes\n"
            << "tokenizer          " << name_of(tokens.tokenizer()) << ", vocabulary " << tokens.vocabulary() << '\n'
            << "bytes per token    " << tokens.bytes_per_token() << '\n'
            << "unigram loss       " << tokens.unigram_loss() << " nats per token (" << bits_per_byte
            << " bits per byte)\n"
            << "restores the text  " << (tokens.restores_text() ? "yes" : "no") << '\n'
            << "digest             " << tokens.digest() << '\n';
}

}  // namespace

ExitStatus run_tokenize(std::span<const std::string> arguments) {
  data::TokenizeRequest request;
  std::string output, sentencepiece;
  std::vector<std::string> texts;
  po::options_description options("Options");
  options.add_options()
      ("output", po::value(&output)->required(), "token file to write")
      ("vocabulary", po::value(&request.vocabulary)->default_value(0),
       "pieces of a SentencePiece model to train; 0: bytes")
      ("sentencepiece", po::value(&sentencepiece), "SentencePiece model to use (a .model file)")
      ("validation", po::value(&request.validation_share)->default_value(request.validation_share, "0.05"),
       "share of each text, at its end, that is for validation")
      ("overwrite", po::bool_switch(&request.overwrite), "replace an output that exists")
      ("dry-run", po::bool_switch(&request.dry_run), "read and check the texts, write nothing")
      ("text", po::value(&texts)->composing()->required(),
       "UTF-8 text file; may be given without --text, and repeated");
  po::positional_options_description positional;
  positional.add("text", -1);
  po::variables_map values;
  if (!parse(arguments, manual, options, positional, values)) return ExitStatus::success;

  request.output = output;
  request.sentencepiece_model = sentencepiece;
  request.texts.assign(texts.begin(), texts.end());
  request.progress = progress_line();
  data::tokenize(request);
  if (request.dry_run) {
    std::cout << texts.size() << " text(s) can be tokenized into " << output << '\n';
  } else {
    print_summary(output);
  }
  return ExitStatus::success;
}

}  // namespace Atoll::app
