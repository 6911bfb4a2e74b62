package llmhttp

import "dappco.re/go/core/go-ratelimit"

const (
	// bytesPerToken is the estimated length of a token in UTF-8. It overestimates English text a
	// little, and is right for languages that take three bytes per character.
	bytesPerToken = 4
	// tokensPerMedia is the estimate for an image, a sound or a file.
	tokensPerMedia = 1000
	// firstOutput is the expected output of a model that has not answered yet, in tokens.
	firstOutput = 1000
)

// textTokens estimates the tokens of a text by its size in bytes.
func textTokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// estimate returns the expected usage of a call.
func (t *Transport) estimate(f *flight) (promptTokens, outputTokens int) {
	call := f.call
	if t.Estimate != nil {
		return t.Estimate(call)
	}
	text := call.PromptBytes
	if call.Partial {
		text = clampTokens(call.BodySize)
	}
	prompt := textTokens(text) + call.Media*tokensPerMedia
	output := t.models.output(f.model)
	if call.MaxOutput > 0 {
		output = min(output, call.MaxOutput)
	}
	return f.adapter.Estimate(call, prompt, output)
}

// cutToQuota returns an estimate that the quota in s can ever allow, so that a small quota does not
// refuse a call forever because of an estimate that is too large.
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
