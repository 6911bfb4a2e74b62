// Names: the rows that models stand for, under the names by which real programs call them.

package profile

import (
	"maps"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
)

// resolve finds a name as the limiter does with Config.MatchVersions.
func resolve(model string, quotas map[string]*Row) string {
	name, ok := catalog.Match(model, func(name string) bool { return quotas[name] != nil })
	if !ok {
		name, _ = catalog.NewPatternIndex(maps.Keys(quotas)).Longest(model)
	}
	return name
}

func TestRealNames(t *testing.T) {
	set := builtin(t)
	const three = "gemini openai anthropic"
	for _, tt := range []struct {
		profiles string // providers as in DefaultProfiles, or provider/tier
		model    string
		want     string // the name of the row; empty if none stands for the model
	}{
		// OpenAI
		{three, "gpt-6-luna", "gpt-6-luna"},
		{three, "gpt-6-luna-2026-09-15", "gpt-6-luna"},
		{three, "gpt-6-astra", "gpt-6-astra"},
		{three, "gpt-6-sol", "gpt-6-sol"},
		{three, "gpt-6.1-sol", "gpt-6.1-sol"},
		{three, "gpt-6.1-terra", ""},
		{three, "gpt-6-cyber", ""},
		{three, "gpt-5.6-sol", "gpt-5.6-sol"},
		{three, "gpt-5.6-terra", "gpt-5.6-terra"},
		{three, "gpt-5.6-luna", "gpt-5.6-luna"},
		{three, "gpt-5.5", "gpt-5.5"},
		{three, "gpt-5.5-2026-04-23", "gpt-5.5"},
		{three, "gpt-5.5-pro", ""},
		{three, "gpt-5.5-pro-2026-04-23", ""},
		{three, "gpt-5.4", ""},
		{three, "gpt-5.4-mini", ""},
		{three, "gpt-5.4-mini-2026-03-17", ""},
		{three, "gpt-5.4-nano", ""},
		{three, "gpt-5.2", ""},
		{three, "gpt-5.2-codex", ""},
		{three, "gpt-5", ""},
		{three, "gpt-5-2025-08-07", ""},
		{three, "gpt-5-mini", ""},
		{three, "gpt-5-chat-latest", ""},
		{three, "gpt-4.1", ""},
		{three, "gpt-4.1-mini-2025-04-14", ""},
		{three, "gpt-4o", "gpt-4o"},
		{three, "gpt-4o-2024-08-06", "gpt-4o"},
		{three, "gpt-4o-mini-2024-07-18", "gpt-4o-mini"},
		{three, "gpt-4o-audio-preview", ""},
		{three, "gpt-4-turbo-2024-04-09", "gpt-4-turbo"},
		{three, "gpt-4", ""},
		{three, "gpt-3.5-turbo-0125", ""},
		{three, "o1-2024-12-17", "o1"},
		{three, "o1-mini-2024-09-12", "o1-mini"},
		{three, "o1-pro", ""},
		{three, "o3", ""},
		{three, "o3-mini-2025-01-31", "o3-mini"},
		{three, "o4-mini", ""},
		{three, "o4-mini-deep-research-2025-06-26", ""},
		{three, "ft:gpt-4o-mini-2024-07-18:my-org:custom:id", ""},
		{three, "text-embedding-3-small", ""},

		// Anthropic
		{three, "claude-fable-5-1", "claude-fable-5-1"},
		{three, "claude-mythos-5-1", ""},
		{three, "claude-opus-5-5", "claude-opus-5-5"},
		{three, "claude-opus-5", "claude-opus-5"},
		{three, "claude-opus-4-8", "claude-opus-4-8"},
		{three, "claude-opus-4-5-20251101", "claude-opus-4-5"},
		{three, "claude-opus-4-1-20250805", ""},
		{three, "claude-opus-4-20250514", "claude-opus-4"},
		{three, "claude-sonnet-5-5", "claude-sonnet-5-5"},
		{three, "claude-sonnet-4-6", "claude-sonnet-4-6"},
		{three, "claude-sonnet-4-5", "claude-sonnet-4-5"},
		{three, "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"},
		{three, "claude-sonnet-4-20250514", "claude-sonnet-4"},
		{three, "claude-haiku-5-5", "claude-haiku-5-5"},
		{three, "claude-haiku-4-5", "claude-haiku-4-5"},
		{three, "claude-haiku-4-5-20251001", "claude-haiku-4-5"},
		{three, "claude-3-5-haiku-20241022", "claude-3-5-haiku"},
		{three, "claude-3-5-haiku-latest", "claude-3-5-haiku"},
		{three, "claude-haiku-3.5", "claude-haiku-3.5"},
		{three, "claude-3-haiku-20240307", ""},
		{three, "claude-3-7-sonnet-latest", ""},
		{"anthropic/build", "claude-opus-5-5", "claude-opus-5-5"},
		{"anthropic/build", "claude-opus-4-20250514", ""},
		{"anthropic/scale", "claude-haiku-4-5-20251001", "claude-haiku-4-5"},

		// Gemini
		{three, "gemini-2.5-pro", "gemini-2.5-pro"},
		{three, "models/gemini-2.5-pro", "gemini-2.5-pro"},
		{three, "gemini-2.5-flash", ""},
		{three, "gemini-2.5-flash-lite", ""},
		{three, "gemini-2.0-flash-001", "gemini-2.0-flash"},
		{three, "gemini-2.0-flash-lite", "gemini-2.0-flash-lite"},
		{three, "gemini-3-pro-preview", "gemini-3-pro-preview"},
		{three, "gemini-3.6-flash", ""},
		{three, "gemini-3.5-flash", ""},
		{"gemini/free", "models/gemini-3.6-flash", ""},

		// Bedrock: the quotas of an AWS account, not of one with Anthropic
		{"bedrock " + three, "anthropic.claude-opus-4-6-v1", ""},
		{"bedrock " + three, "us.anthropic.claude-opus-4-5-20251101-v1:0", "us.anthropic.claude-opus-4-5"},
		{"bedrock " + three, "global.anthropic.claude-haiku-4-5-20251001-v1:0", "global.anthropic.claude-haiku-4-5"},
		{"bedrock " + three, "eu.anthropic.claude-sonnet-4-6", "eu.anthropic.claude-sonnet-4-6"},
		{"bedrock", "us.anthropic.claude-opus-5-v1:0", "us.anthropic.claude-opus-5"},
		{"bedrock", "us.anthropic.claude-opus-5-5-v1:0", "us.anthropic.claude-opus-5-5"},
		{"bedrock", "us.anthropic.claude-sonnet-5-5", ""},
		{"bedrock", "amazon.nova-pro-v1:0:300k", ""},
		{"bedrock", "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-haiku-20240307-v1:0", ""},

		// Vertex: a threshold by family; beside Anthropic's profile the path and the date come off
		{"vertex", "publishers/anthropic/models/claude-opus-4-5@20251101", ""},
		{"vertex", "publishers/google/models/gemini-2.5-pro", "publishers/google/models/gemini-*-pro"},
		{"vertex", "projects/p/locations/global/publishers/google/models/gemini-3.8-flash", "projects/*/publishers/google/models/gemini-*-flash"},
		{"vertex", "publishers/google/models/gemini-3-pro-image", ""},
		{"vertex", "publishers/anthropic/models/claude-haiku-4-5@20251001", "publishers/anthropic/models/claude-haiku-4-5"},
		{"vertex anthropic", "projects/p/locations/global/publishers/anthropic/models/claude-haiku-4-5@20251001", "claude-haiku-4-5"},
		{"vertex anthropic", "claude-sonnet-4-5@20250929", "claude-sonnet-4-5"},
		{"vertex anthropic", "claude-3-5-haiku@20241022", "claude-3-5-haiku"},

		// Azure: deployments have the names that their owners chose
		{"azure", "gpt-5.5", ""},
		{"azure", "prod-gpt-5.4-eastus2", ""},
		{"azure openai", "gpt-5.5", "gpt-5.5"},
		{"azure openai", "gpt-5.5-dz-std", ""},
		{"azure openai", "azure/gpt-6-luna", "gpt-6-luna"},

		// Groq
		{"groq", "llama-3.3-70b-versatile", ""},
		{"groq/free", "llama-3.3-70b-versatile", ""},
		{"groq/free", "llama-3.1-8b-instant", ""},
		{"groq/free", "openai/gpt-oss-120b", "openai/gpt-oss-120b"},
		{"groq/free", "groq/compound-mini", "groq/compound-mini"},
		{"groq/free", "moonshotai/kimi-k2-instruct-0905", ""},

		// Mistral, xAI, DeepSeek, Cerebras
		{"mistral", "mistral-large-latest", ""},
		{"mistral", "codestral-2508", ""},
		{"xai", "grok-4.7", "grok-4.7"},
		{"xai", "grok-4.5-latest", "grok-4.5"},
		{"xai", "x-ai/grok-4.6", "grok-4.6"},
		{"xai", "grok-4.20-0309-reasoning", "grok-4.20-0309-reasoning"},
		{"xai", "grok-4-0709", ""},
		{"deepseek", "deepseek-v4-flash", "deepseek-v4-flash"},
		{"deepseek", "deepseek-v4-pro", "deepseek-v4-pro"},
		{"deepseek", "deepseek-reasoner", ""},
		{"cerebras", "gpt-oss-120b", "gpt-oss-120b"},
		{"cerebras", "zai-glm-4.7", ""},
		{"cerebras/free", "qwen-3.8-27b", "qwen-3.8-27b"},
		{"cerebras", "llama-3.3-70b", ""},

		// OpenRouter
		{"openrouter", "meta-llama/llama-3.2-3b-instruct:free", "*:free"},
		{"openrouter", "openai/gpt-oss-120b:free", "*:free"},
		{"openrouter/free", "deepseek/deepseek-r1-0528:free", "*:free"},
		{"openrouter", "anthropic/claude-opus-4.5", ""},
		{"openrouter anthropic", "anthropic/claude-opus-4.5", ""},
		{"openrouter", "openai/gpt-5.5:nitro", ""},

		// Local
		{"local", "llama3.1:8b-instruct-q4_K_M", ""},
		{"local", "mlx-community/Llama-3.2-3B-Instruct-4bit", ""},
	} {
		quotas := make(map[string]*Row)
		for name := range strings.FieldsSeq(tt.profiles) {
			name, tier, at := strings.Cut(name, "/")
			if p := set.Provider(name); at {
				maps.Copy(quotas, p.Models(tier))
			} else {
				maps.Copy(quotas, p.Defaults())
			}
		}
		if got := resolve(tt.model, quotas); got != tt.want {
			t.Errorf("%s, with %s: %q, want %q", tt.model, tt.profiles, got, tt.want)
		}
	}
}

// Without Config.MatchVersions only patterns stand for dated names.
func TestRealNamesWithoutMatchVersions(t *testing.T) {
	quotas := make(map[string]*Row)
	for _, name := range builtin(t).Names() {
		maps.Copy(quotas, builtin(t).Provider(name).Defaults())
	}
	index := catalog.NewPatternIndex(maps.Keys(quotas))
	for model, want := range map[string]string{
		"claude-opus-4-5-20251101":                    "claude-opus-4-5-20*",
		"claude-sonnet-4-5-20250929":                  "claude-sonnet-4-5-20*",
		"claude-haiku-4-5-20251001":                   "claude-haiku-4-5-20*",
		"claude-3-5-haiku-20241022":                   "claude-3-5-haiku-*",
		"claude-3-5-haiku-latest":                     "claude-3-5-haiku-*",
		"gpt-5.5-2026-04-23":                          "gpt-5.5-20*",
		"o4-mini-deep-research-2025-06-26":            "",
		"meta-llama/llama-3.2-3b-instruct:free":       "*:free",
		"claude-opus-4-20250514":                      "",
		"claude-opus-5-5":                             "",
		"gpt-5.4-mini-2026-03-17":                     "",
		"us.anthropic.claude-opus-4-5-20251101-v1:0":  "us.anthropic.claude-opus-4-5-*",
		"anthropic/claude-haiku-4-5-20251001":         "",
		"publishers/google/models/gemini-2.0-flash-1": "",
	} {
		if got, _ := index.Longest(model); got != want {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
}

// The patterns that programs give themselves for what no profile can know.
func TestRealNamesByOwnPatterns(t *testing.T) {
	for _, tt := range []struct{ model, quotas, want string }{
		{"prod-gpt-5.4-eastus2", "prod-* prod-gpt-* *", "prod-gpt-*"},
		{"gpt-5.5-dz-std", "gpt-5.5 *-std", "*-std"},
		{"us.anthropic.claude-opus-4-6-v1", "*anthropic.claude-opus-4-* *anthropic.*", "*anthropic.claude-opus-4-*"},
		{"global.anthropic.claude-haiku-4-5-20251001-v1:0", "*.anthropic.claude-haiku-* us.*", "*.anthropic.claude-haiku-*"},
		{"arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-6", "*anthropic.*", "*anthropic.*"},
		{"publishers/google/models/gemini-3-pro-preview", "publishers/google/*", "publishers/google/*"},
		{"publishers/google/models/gemini-2.5-pro", "publishers/google/* gemini-2.5-pro", "gemini-2.5-pro"},
		{"ft:gpt-4o-mini-2024-07-18:my-org:custom:id", "ft:*:my-org:* ft:*", "ft:*:my-org:*"},
	} {
		quotas := make(map[string]*Row)
		for name := range strings.FieldsSeq(tt.quotas) {
			quotas[name] = &Row{}
		}
		if got := resolve(tt.model, quotas); got != tt.want {
			t.Errorf("%s of %q: %q, want %q", tt.model, tt.quotas, got, tt.want)
		}
	}
}
