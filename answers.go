package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/tally"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// Estimate is what the answers of a model have taught about its next call. A permille is a
// thousandth. The zero value says that nothing is known: see RateLimiter.Estimate.
type Estimate struct {
	// Answers is how many answers were seen.
	Answers int `json:"answers"`
	// OutputTokens is the expected output: a quarter more than the largest of the last 32 to 64
	// answers.
	OutputTokens int `json:"output_tokens"`
	// PromptPermille is how many tokens a prompt has for a thousand that its caller estimates:
	// the mean of the first eight prompts, of which each later one replaces an eighth, and the mean
	// deviation of single prompts from it, so that a minute of calls is not estimated too low. It
	// is between 250 and 4000, or 0 before the first.
	PromptPermille int `json:"prompt_permille"`
	// ErrorP50 and ErrorP95 bound the error of the corrected estimates of the last 64 prompts, in
	// permille of the real prompt: half of them, and 19 of 20, were wrong by no more.
	ErrorP50 int `json:"error_p50_permille"`
	ErrorP95 int `json:"error_p95_permille"`
}

// Correct returns an estimate of a prompt, in tokens, after the correction by PromptPermille. It
// rounds up. Before the first answer it returns the estimate as it is.
func (e Estimate) Correct(promptTokens int) int {
	return tally.Correct(promptTokens, e.PromptPermille)
}

// ObserveAnswer learns from an answer of model, for Estimate: from the estimate that the caller's
// rule gave, before Estimate.Correct, and from the real usage. Of estimated only PromptTokens
// counts. A count of the prompt or of its estimate that is zero or less is not known, and corrects
// nothing; without any usage it does nothing. It charges nothing: see Commit.
//
// What was learned is saved with the state. With Config.Shared and Config.Store it is of this
// limiter alone, and ends with it. Reset and the end of the minute and the day keep it: it is about
// the model, not about its usage. At most Config.MaxModels models are known; a new one takes the
// place of the one that answered least recently. ObserveAnswer is safe for concurrent use.
//
// A Transport of package llmhttp calls it for each answer.
func (rl *RateLimiter) ObserveAnswer(model string, estimated, used Usage) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	name := rl.nameRLocked(model)
	if seen := rl.answers.Observe(name, estimated.tokens(), used.tokens(), rl.mostModels()); seen > 0 {
		rl.autosave.changedNowLocked(&rl.clock)
	}
}

func (u Usage) tokens() tokens.Count {
	return tokens.Count{Input: u.PromptTokens, Output: u.OutputTokens}
}

// Estimate returns what was learned of the answers of model: the zero value before the first. It
// is safe for concurrent use.
func (rl *RateLimiter) Estimate(model string) Estimate {
	rl.mu.RLock()
	name := rl.nameRLocked(model)
	rl.mu.RUnlock()
	e := rl.answers.Estimate(name)
	return Estimate{e.Answers, e.Output, e.Correction, e.ErrorP50, e.ErrorP95}
}
