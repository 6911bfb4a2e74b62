package llmhttp

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/money"
)

// apart is an adapter that does not know what is billed.
type apart struct{ Adapter }

// Each token is billed once, as the provider of the API counts.
func TestBill(t *testing.T) {
	usage := Usage{Prompt: 100, CacheRead: 30, CacheWrite: 20, ToolUse: 5, Output: 40, Thoughts: 7, Known: true}
	for _, tt := range []struct {
		adapter Adapter
		want    money.Usage
	}{
		{openAI{}, money.Usage{Input: 50, CachedInput: 30, CacheWrite: 20, Output: 47}},
		{anthropic{}, money.Usage{Input: 100, CachedInput: 30, CacheWrite: 20, Output: 40}},
		{gemini{}, money.Usage{Input: 75, CachedInput: 30, Output: 47}},
		{ollama{}, money.Usage{Input: 100, Output: 40}},
		{apart{ollama{}}, money.Usage{Input: 105, CachedInput: 30, CacheWrite: 20, Output: 47}},
	} {
		if got := billOf(tt.adapter, &Call{}, &usage); got != tt.want {
			t.Errorf("%T: %+v, want %+v", tt.adapter, got, tt.want)
		}
	}
	odd := Usage{Prompt: 10, CacheRead: 30, CacheWrite: 20}
	for _, a := range adapters {
		if got := billOf(a, &Call{}, &odd); got.Input < 0 {
			t.Errorf("%s: %+v", a.Name(), got)
		}
	}
}
