package llmhttp

import (
	"cmp"
	"strings"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// A Biller is an [Adapter] that knows what its provider bills, which often differs from what counts
// towards limits: see package money. Of an Adapter that is none, each count of a Usage is billed as
// if none were inside another, so a budget may count too much and never too little.
type Biller interface {
	// Bill returns the tokens that the provider bills for a usage, each once.
	Bill(call *Call, usage *Usage) money.Usage
}

// billOf returns what is billed for a usage. Where the answer says nothing of the service tier,
// that is the one that the request asks for.
func billOf(a Adapter, call *Call, usage *Usage) money.Usage {
	bill := money.Usage{
		Input: usage.Prompt + usage.ToolUse, CachedInput: usage.CacheRead, CacheWrite: usage.CacheWrite,
		Output: usage.Output + usage.Thoughts,
	}
	if b, ok := a.(Biller); ok {
		bill = b.Bill(call, usage)
	}
	if bill.CacheWriteHour == 0 {
		bill.CacheWriteHour = min(usage.CacheWriteHour, bill.CacheWrite)
		bill.CacheWrite -= bill.CacheWriteHour
	}
	bill.ServiceTier = cmp.Or(bill.ServiceTier, usage.ServiceTier, call.tier)
	return bill
}

// tierOf returns the service tier that a value names, in any provider's spelling; 0 for none.
func tierOf(v Value) money.ServiceTier { return tierNamed(v.text()) }

func tierNamed(name string) money.ServiceTier {
	return money.TierOf(strings.TrimPrefix(strings.ToLower(name), "service_tier_"))
}

// Bill takes the parts of the cache out of the prompt.
func (openAI) Bill(_ *Call, usage *Usage) money.Usage {
	return money.Usage{
		Input:       max(usage.Prompt-usage.CacheRead-usage.CacheWrite, 0),
		CachedInput: usage.CacheRead, CacheWrite: usage.CacheWrite, Output: usage.Output + usage.Thoughts,
	}
}

// Bill leaves the parts of the cache beside the prompt.
func (anthropic) Bill(_ *Call, usage *Usage) money.Usage {
	return money.Usage{
		Input: usage.Prompt, CachedInput: usage.CacheRead, CacheWrite: usage.CacheWrite, Output: usage.Output,
	}
}

// Bill takes the cached content out of the prompt, and adds tool results and thoughts, which are
// beside.
func (gemini) Bill(_ *Call, usage *Usage) money.Usage {
	return money.Usage{
		Input: max(usage.Prompt-usage.CacheRead, 0) + usage.ToolUse, CachedInput: usage.CacheRead,
		Output: usage.Output + usage.Thoughts,
	}
}

// Bill returns what the answer says.
func (ollama) Bill(_ *Call, usage *Usage) money.Usage {
	return money.Usage{Input: usage.Prompt, Output: usage.Output}
}

// billsOutput reports whether a provider bills the output of a call and limits its input alone.
func billsOutput(a Adapter, call *Call) bool {
	if b, ok := a.(inputOnly); ok {
		return b.billsOutput(call)
	}
	return call.Adapter == gemini{}.Name() && strings.Contains(strings.ToLower(call.Operation), "generate")
}

// billable returns the most output tokens that a call can cost, as far as its request tells: its
// limit of the output, for each of the answers; zero where that is the estimate. At Gemini, which
// limits input alone, it is the learned output for a request without a limit.
func (t *Transport) billable(f *flight, learned ratelimit.Estimate) int {
	call := f.call
	switch {
	case call.MaxOutput > 0:
		return clampTokens(int64(call.MaxOutput) * int64(call.answers()))
	case !billsOutput(f.adapter, call):
		return 0
	case learned.Answers == 0:
		return t.firstOutput()
	}
	return learned.OutputTokens
}
