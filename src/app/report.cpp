#include "atoll/app/report.hpp"

#include <algorithm>
#include <cmath>
#include <format>
#include <iostream>
#include <limits>

namespace Atoll::app {
namespace {

using federation::Gateway;
using federation::Protocol;

std::string short_number(double value) {
  static constexpr const char* units[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  for (; value >= 1000 && unit < 4; ++unit) value /= 1000;
  return unit == 0 ? std::format("{:.0f}", value) : std::format("{:.3g}{}", value, units[unit]);
}

std::string short_time(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto s = static_cast<long>(seconds);
  if (s >= 3600) return std::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return std::format("{}m{:02}s", s / 60, s % 60);
}

}  // namespace

Report::Report(const FederationFile& federation, const IslandOptions& options, const data::TokenFile& tokens,
               InnerLoop& inner, OuterLoop& outer, Gateway& gateway, EventLog& log)
    : federation_(federation),
      options_(options),
      tokens_(tokens),
      inner_(inner),
      outer_(outer),
      gateway_(gateway),
      log_(log),
      validation_(inner.validation(options.evaluation_batches)) {}

void Report::say(const std::string& text) const {
  std::cout << options_.site << "  " << text << std::endl;
}

void Report::started(std::uint64_t resumed_at, int ranks) {
  log_.write("start", {{"site", options_.site},
                       {"federation", federation_.name},
                       {"configuration", federation_.configuration.hex()},
                       {"program", std::string(ATOLL_VERSION)},
                       {"step", resumed_at},
                       {"ranks", std::int64_t{ranks}},
                       {"threads", std::int64_t{options_.threads}},
                       {"parameters", std::uint64_t{inner_.trainer().parameter_count()}},
                       {"tokens_digest", tokens_.digest()}});
  say(std::format("{} parameters, {} fragments, {} rank{}, {}",
                  short_number(static_cast<double>(inner_.trainer().parameter_count())), inner_.plan().count(), ranks,
                  ranks == 1 ? "" : "s",
                  resumed_at == 0 ? std::string("fresh start") : std::format("resumed at step {}", resumed_at)));
  if (options_.keep_letters != federation::KeepLetters::none)
    say(std::format("keeps letters ({}): {}B per round at most", federation::name_of(options_.keep_letters),
                    short_number(static_cast<double>(federation::kept_bytes_per_round(
                        options_.keep_letters, inner_.trainer().parameter_count(), federation_.sites.size())))));
  step_began_ = progress_began_ = Gateway::now();
  printed_at_ = step_began_;
  progress_at_start_ = gateway_.standing().progress_tokens;
}

void Report::stepped(const model::StepReport& step, double learning_rate) {
  const auto now = Gateway::now();
  const double seconds = (now - step_began_).count();
  step_began_ = now;
  seconds_per_step_ = seconds_per_step_ == 0 ? seconds : 0.95 * seconds_per_step_ + 0.05 * seconds;
  skipped_steps_ += step.skipped;
  const auto state = gateway_.standing();
  const auto traffic = gateway_.traffic();
  log_.write("step", {{"step", inner_.steps()},
                      {"loss", step.loss},
                      {"learning_rate", learning_rate},
                      {"gradient_norm", step.gradient_norm},
                      {"skipped", step.skipped},
                      {"seconds", seconds},
                      {"tokens_per_second", static_cast<double>(inner_.tokens_per_step()) / seconds},
                      {"round", state.round},
                      {"sites", std::uint64_t{state.sites_alive}},
                      {"bytes_sent", traffic.bytes_sent},
                      {"bytes_received", traffic.bytes_received}});
  if (now - printed_at_ < options_.progress_every) return;
  printed_at_ = now;
  print_progress(step.loss);
}

void Report::print_progress(double loss) {
  const auto state = gateway_.standing();
  const auto traffic = gateway_.traffic();
  const double total = static_cast<double>(federation_.protocol.total_tokens);
  const double rate = (state.progress_tokens - progress_at_start_) / (Gateway::now() - progress_began_).count();
  const double left = rate > 0 ? std::max(0.0, total - state.progress_tokens) / rate : INFINITY;
  const auto line =
      std::format("step {:6}  loss {:.4f}  {:>6} tok/s  round {:3}  sites {}/{}{}  sent {}B  {:3.0f} %  left {}",
                  inner_.steps(), loss, short_number(static_cast<double>(inner_.tokens_per_step()) / seconds_per_step_),
                  state.round, state.sites_alive, federation_.sites.size(),
                  state.joining                                     ? " joining"
                  : state.sites_alive < federation_.protocol.quorum ? " no quorum"
                                                                    : "",
                  short_number(static_cast<double>(traffic.bytes_sent)),
                  100 * std::min(1.0, state.progress_tokens / total), short_time(left));
  if (options_.live)
    std::cout << '\r' << options_.site << "  " << line << "\x1b[K" << std::flush;
  else
    say(line);
}

void Report::evaluate() {
  const double loss = inner_.trainer().loss(validation_);
  const double anchor_loss = inner_.trainer().loss(validation_, outer_.anchors());
  log_.write("evaluation", {{"step", inner_.steps()},
                            {"loss", loss},
                            {"anchor_loss", anchor_loss},
                            {"unigram_loss", tokens_.unigram_loss()}});
  say(std::format("step {:6}  validation loss {:.4f}, anchor {:.4f}", inner_.steps(), loss, anchor_loss));
  step_began_ = Gateway::now();
}

void Report::finished() {
  const auto anchors = outer_.anchors();
  const double loss = inner_.trainer().loss(validation_, anchors);
  std::vector<std::string> digests;
  std::vector<std::uint64_t> versions;
  gateway_.visit([&](Protocol& protocol, Seconds) {
    for (const auto& s : protocol.fragments()) {
      digests.push_back(s.digest.hex());
      versions.push_back(s.version);
    }
  });
  gateway_.record();
  const auto prompt = tokens_.encode(options_.prompt);
  const auto text = data::readable(
      options_.prompt + tokens_.decode(inner_.trainer().sample(prompt, 300, 0.8, federation_.seed, anchors)));
  log_.write("evaluation", {{"step", inner_.steps()}, {"anchor_loss", loss}, {"unigram_loss", tokens_.unigram_loss()}});
  log_.write("end", {{"step", inner_.steps()},
                     {"digests", digests},
                     {"versions", versions},
                     {"validation_loss", loss},
                     {"unigram_loss", tokens_.unigram_loss()},
                     {"perplexity", std::exp(loss)},
                     {"bits_per_byte", loss / std::log(2.0) / tokens_.bytes_per_token()},
                     {"skipped_steps", skipped_steps_},
                     {"letters_dropped", gateway_.traffic().letters_dropped},
                     {"sample", text}});
  say(std::format(
      "done: validation loss of the anchor {:.4f} nats per token ({:.3f} bits per byte), unigram model {:.4f}", loss,
      loss / std::log(2.0) / tokens_.bytes_per_token(), tokens_.unigram_loss()));
  say("sample:\n" + text + "\n");
}

}  // namespace Atoll::app
