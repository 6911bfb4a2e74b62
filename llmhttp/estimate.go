package llmhttp

import "dappco.re/go/core/go-ratelimit"

const (
	// bytesPerToken: a token for four bytes of UTF-8 is a little much for English text,
	// and right for languages that take three bytes a character.
	bytesPerToken = 4
	// tokensPerMedia is what an image, a sound or a file is taken for.
	tokensPerMedia = 1000
	// firstOutput is what is expected of a model of which nothing was learned yet.
	firstOutput = 1000
)

// textTokens estimates the tokens of a text by its size.
func textTokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// estimate returns what a call will count as, as far as can be told before.
func (t *Transport) estimate(f *flight) (promptTokens, outputTokens int) {
	call := f.call
	if t.Estimate != nil {
		return t.Estimate(call)
	}
	text := call.PromptBytes
	if call.Partial {
		text = atMost(call.BodySize)
	}
	prompt := textTokens(text) + call.Media*tokensPerMedia
	output := t.models.output(f.model)
	if call.MaxOutput > 0 {
		output = min(output, call.MaxOutput)
	}
	return f.adapter.Estimate(call, prompt, output)
}

// fit cuts an estimate down to what the quota of the model allows at all, so that a
// small quota does not refuse a call for ever because it was taken for too large.
func fit(s *ratelimit.ModelStats, prompt, output int) (int, int) {
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
