package llmhttp

import (
	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
	"dappco.re/go/core/go-ratelimit/money"
)

// finish settles the flight, once. whole says that the body was read to its end; otherwise it was
// closed, failed, or was abandoned.
func (f *flight) finish(whole bool) {
	f.mu.Lock()
	if f.stage == settled {
		f.mu.Unlock()
		return
	}
	f.stage = settled
	text := 0
	if f.stream != nil {
		f.unread = !f.stream.end()
		// Binary frames end with the usage, and one that is cut between two of them just ends.
		whole = whole && !f.stream.cutOff() && f.stream.frames == nil || f.stream.done() || f.usage.final
		f.usage.Partial = f.usage.Partial || !whole && f.stream.grows()
		if f.unread || f.stream.broken() {
			whole, f.usage.Partial = false, true
		}
		if f.fault != nil {
			whole, f.usage.Partial, f.problem = false, true, f.fault
		}
		text = f.writtenTokens()
		f.stream.release()
		f.stream = nil
	}
	f.transport.idles.stop(&f.idle)
	if f.stopContext != nil {
		f.stopContext()
	}
	f.mu.Unlock()
	f.resolveProblem()
	if f.unread && f.status >= 200 && f.status < 300 {
		f.transport.tellUncounted(f.call.Request, f.call.Model, unreadableAnswer) // it was sent
	}
	used, bill, source := f.used(whole, text)
	f.commit(used, bill)
	f.transport.report(f, Event{
		Kind: EventSettled, Status: f.status,
		Settled: used, Source: source, Reported: f.usage,
	})
}

// used returns the final charge of a call that was answered, and what is billed of it. whole says
// that the answer was read to its end, text is the estimated number of tokens in the text that was
// read.
func (f *flight) used(whole bool, text int) (used ratelimit.Usage, bill money.Usage, source Source) {
	estimated := f.estimatedBill()
	switch status := f.outcome(text); {
	case status >= 300 && (status < 500 || f.overloaded()):
		return ratelimit.Usage{}, money.Usage{}, SourceRefused
	case status >= 300 || status < 200:
		return f.charged, estimated, SourceEstimate
	}
	reported := f.usage
	if longest := max(maxText, f.call.MaxOutput); !reported.Known && text > longest {
		reported.Anomalies++
	}
	if reported.Anomalies > 0 {
		f.transport.anomalies.Add(int64(reported.Anomalies))
		return f.charged, estimated, SourceEstimate
	}
	source = SourceReported
	switch {
	case reported.Known && !(reported.Partial && !whole) && !(reported.pending && reported.Output|reported.Thoughts == 0):
		if reported.Partial {
			reported.Output = max(reported.Output, text) // the stream ended with an error
		}
		f.observeAnswer(f.promptOf(&reported), reported.Output+reported.Thoughts)
	case whole && text > 0 && !reported.pending:
		source, reported.Output = SourceText, max(reported.Output, text)
		f.observeAnswer(0, reported.Output)
	default:
		// The provider may have written on after the answer was cut off, and counts all it wrote.
		source = SourceEstimate
		reported.Output = max(reported.Output, text, f.estimatedOutput())
		if f.unread {
			reported.Output = max(reported.Output, f.longestOutput())
		}
	}
	if reported.Prompt|reported.CacheRead|reported.CacheWrite|reported.ToolUse == 0 {
		reported.Prompt = f.charged.PromptTokens
	}
	used.PromptTokens, used.OutputTokens = f.adapter.Count(f.call, &reported)
	used.OutputTokens += max(f.unrefunded()-used.PromptTokens-used.OutputTokens, 0)
	if bill = billOf(f.adapter, f.call, &reported); source == SourceEstimate {
		bill.Output = max(bill.Output, estimated.Output)
	}
	return used, bill, source
}

// unrefunded returns the tokens that the provider charged on arrival and does not refund.
func (f *flight) unrefunded() int {
	if f.transport.Estimate != nil || !f.transport.NoRefund && !f.neverRefunded() {
		return 0
	}
	return min(max(f.charged.PromptTokens, f.longestOutput()), f.charged.PromptTokens+f.charged.OutputTokens)
}

// longestOutput returns the most output tokens that the request allows; zero if it sets no limit.
func (f *flight) longestOutput() int {
	return clampTokens(int64(f.call.MaxOutput) * int64(f.call.answers()))
}

// neverRefunded reports whether the provider is known to refund nothing.
func (f *flight) neverRefunded() bool {
	return f.call.Adapter == openAI{}.Name() && isOpenAI(f.host())
}

// isOpenAI reports whether a host is of OpenAI, or of its models at Azure.
func isOpenAI(host string) bool {
	return headers.IsHost(host, "openai.com") || headers.IsHost(host, "azure.com")
}

// maxText is more tokens of text than any answer has. A longer text without usage is not an answer
// of a model.
const maxText = 1 << 20

// overloaded reports whether the provider refused the call for overload, and so did nothing for it.
func (f *flight) overloaded() bool { return f.problem != nil && f.problem.Kind == Overloaded }
