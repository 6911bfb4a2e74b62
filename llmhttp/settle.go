package llmhttp

import "dappco.re/go/core/go-ratelimit"

// finish settles the flight, once: at the end of the body (whole), or when it was closed,
// failed, or was given up before.
func (f *flight) finish(whole bool) {
	f.mu.Lock()
	if f.stage == settled {
		f.mu.Unlock()
		return
	}
	f.stage = settled
	text := 0
	if f.watch != nil {
		whole = whole || f.watch.done()
		f.watch.end()
		if f.watch.broken() {
			whole, f.usage.Partial = false, true
		}
		text = textTokens(f.watch.text())
		f.watch.release()
		f.watch = nil
	}
	f.transport.idles.clear(&f.idle)
	if f.unhook != nil {
		f.unhook()
	}
	f.mu.Unlock()

	f.conclude()
	used, source := f.verdict(whole, text)
	f.reservation.Commit(used.PromptTokens, used.OutputTokens)
	f.transport.report(f, Event{
		Kind: EventSettled, Status: f.status,
		Settled: used, Source: source, Reported: f.usage,
	})
}

// verdict is what a call counts as that was answered, from what was seen of the answer:
// the whole of it or not, and a text of so many tokens.
func (f *flight) verdict(whole bool, text int) (used ratelimit.Usage, source Source) {
	switch {
	case f.status >= 300 && (f.status < 500 || f.overloaded()):
		return ratelimit.Usage{}, SourceRefused
	case f.status >= 300 || f.status < 200:
		return f.charged, SourceEstimate
	}
	seen := f.usage
	if most := max(mostText, f.call.MaxOutput); !seen.Known && text > most {
		seen.Anomalies++
	}
	if seen.Anomalies > 0 {
		f.transport.anomalies.Add(int64(seen.Anomalies))
		return f.charged, SourceEstimate
	}
	source = SourceReported
	switch {
	case seen.Known && !(seen.Partial && !whole):
		if seen.Partial {
			seen.Output = max(seen.Output, text) // the stream ended with an error
		}
		f.transport.models.learn(f.model, seen.Output+seen.Thoughts)
	case whole && text > 0:
		source, seen.Output = SourceText, max(seen.Output, text)
		f.transport.models.learn(f.model, seen.Output)
	default:
		// What was cut off may have gone on: the provider counts what it wrote, read or not.
		source, seen.Output = SourceEstimate, max(seen.Output, text, f.charged.OutputTokens)
	}
	if seen.Prompt|seen.CacheRead|seen.CacheWrite|seen.ToolUse == 0 {
		seen.Prompt = f.charged.PromptTokens
	}
	used.PromptTokens, used.OutputTokens = f.adapter.Count(f.call, &seen)
	used.OutputTokens += max(f.kept()-used.PromptTokens-used.OutputTokens, 0)
	return used, source
}

// kept is how many tokens the provider charged when the call arrived and does not give back.
func (f *flight) kept() int {
	if f.transport.Estimate != nil || !f.transport.NoRefund && !f.keeps() {
		return 0
	}
	allowed := atMost(int64(f.call.MaxOutput) * int64(f.call.answers()))
	return min(max(f.charged.PromptTokens, allowed), f.charged.PromptTokens+f.charged.OutputTokens)
}

// keeps reports whether the provider is known to give nothing back.
func (f *flight) keeps() bool {
	host := f.host()
	return f.call.Adapter == openAI{}.Name() && (hostIn(host, "openai.com") || hostIn(host, "azure.com"))
}

// mostText is more tokens of text than any answer has. Where there are more and no usage,
// it is no answer.
const mostText = mostLearned

// overloaded reports whether the provider refused the call because it has too much to
// do, and so did nothing for it.
func (f *flight) overloaded() bool { return f.problem != nil && f.problem.Kind == Overloaded }
