package llmhttp

import "dappco.re/go/core/go-ratelimit"

const (
	// bytesPerToken is the estimated length of a token in UTF-8. It overestimates English text a
	// little, and is right for languages that take three bytes per character.
	bytesPerToken = 4
	// firstOutput is the expected output of a model that has not answered yet, in tokens, where
	// neither Transport.FirstOutput nor the request says less.
	firstOutput = 256
)

// textTokens estimates the tokens of a text by its size in bytes.
func textTokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// estimate returns the expected usage of a call.
func (t *Transport) estimate(f *flight) (promptTokens, outputTokens int) {
	call := f.call
	if t.Estimate != nil {
		f.billedOutput = t.billable(f, ratelimit.Estimate{})
		return t.Estimate(call)
	}
	learned := t.Limiter.Estimate(f.name)
	f.billedOutput = t.billable(f, learned)
	output := learned.OutputTokens
	if learned.Answers == 0 {
		output = t.firstOutput()
	}
	if call.MaxOutput > 0 {
		output = min(output, call.MaxOutput)
	}
	return f.adapter.Estimate(call, t.estimatePrompt(f, learned), output)
}

// estimatePrompt returns the expected tokens of the prompt of a call, and notes the estimate of its
// text before the correction, from which the answer teaches.
func (t *Transport) estimatePrompt(f *flight, learned ratelimit.Estimate) int {
	call := f.call
	if call.Partial {
		return textTokens(clampTokens(call.BodySize)) // most of which may be no text
	}
	text := textTokens(call.PromptBytes)
	if call.Media == 0 && !call.continues {
		f.uncorrected = text
	}
	if t.countPrompt(f) {
		return call.counted
	}
	corrected := learned.Correct(text)
	if t.NoRefund || f.neverRefunded() {
		corrected = max(corrected, text) // the provider charges by an estimate of its own
	}
	return clampTokens(int64(corrected) + int64(call.mediaTokens) + int64(call.carried))
}

// firstOutput returns the expected output of a model that has not answered yet.
func (t *Transport) firstOutput() int {
	if t.FirstOutput > 0 {
		return t.FirstOutput
	}
	return firstOutput
}

// observeAnswer has the limiter learn from an answer. Its prompt teaches nothing unless it was text
// alone, and estimated by its size.
func (f *flight) observeAnswer(prompt, output int) {
	if f.transport.Estimate != nil {
		prompt = 0
	}
	f.transport.Limiter.ObserveAnswer(f.name,
		ratelimit.Usage{PromptTokens: f.uncorrected}, ratelimit.Usage{PromptTokens: prompt, OutputTokens: output})
}

// promptOf returns all tokens of the prompt that a usage reports, those from a cache included.
func (f *flight) promptOf(reported *Usage) int {
	if a, ok := f.adapter.(prompter); ok {
		return a.wholePrompt(f.call, reported)
	}
	if f.call.Adapter == (anthropic{}).Name() {
		return reported.Prompt + reported.CacheRead + reported.CacheWrite
	}
	return reported.Prompt
}

// limits returns the usage and the limits of a model, and after it those of its pools.
func (t *Transport) limits(name string) []ratelimit.ModelStats {
	all := []ratelimit.ModelStats{t.Limiter.Stats(name)}
	for _, pool := range t.Limiter.PoolsOf(name) {
		all = append(all, t.Limiter.PoolStats(pool))
	}
	return all
}

// cutToQuotas returns an estimate that the quotas in all can ever allow, so that a small quota does
// not refuse a call forever because of an estimate that is too large.
func cutToQuotas(all []ratelimit.ModelStats, prompt, output int) (int, int) {
	for i := range all {
		prompt, output = cutToQuota(&all[i], prompt, output)
	}
	return prompt, output
}

// cutToQuota is cutToQuotas for one quota.
func cutToQuota(s *ratelimit.ModelStats, prompt, output int) (int, int) {
	capped := func(n, limit int) int {
		if limit > 0 {
			return min(n, limit)
		}
		return n
	}
	prompt, output = capped(prompt, s.MaxITPM), capped(output, s.MaxOTPM)
	for _, limit := range []int{s.MaxTPM, s.MaxTPD} {
		if limit > 0 {
			prompt = min(prompt, limit)
			output = min(output, limit-prompt)
		}
	}
	return prompt, output
}
