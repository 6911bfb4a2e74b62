package ratelimit

// Provider names a provider of models. Any string is a Provider; only those below have a default
// profile.
type Provider string

const (
	// ProviderGemini is Google's Gemini API.
	ProviderGemini Provider = "gemini"
	// ProviderOpenAI is the OpenAI API.
	ProviderOpenAI Provider = "openai"
	// ProviderAnthropic is the Anthropic API.
	ProviderAnthropic Provider = "anthropic"
	// ProviderLocal stands for inference on your own hardware (Ollama, MLX, llama.cpp). It has no
	// default quotas.
	ProviderLocal Provider = "local"
)

// ProviderProfile is a provider with the quotas of its models.
type ProviderProfile struct {
	Provider Provider
	Models   map[string]ModelQuota // by the name of the model
}

// DefaultProfiles returns the built-in profiles, a fresh map at each call, which the caller may
// change.
//
// The figures are those of February 2026. Providers change theirs often, and they depend on the
// account's tier: look up your own and set them in Config.Quotas or by SetQuota.
func DefaultProfiles() map[Provider]ProviderProfile {
	gemini := ModelQuota{MaxRPM: 150, MaxTPM: 1_000_000, MaxRPD: 1_000}
	gpt := ModelQuota{MaxRPM: 500, MaxTPM: 30_000}
	gptMini := ModelQuota{MaxRPM: 500, MaxTPM: 200_000}
	claude := ModelQuota{MaxRPM: 50, MaxTPM: 40_000}
	return map[Provider]ProviderProfile{
		ProviderGemini: {Provider: ProviderGemini, Models: map[string]ModelQuota{
			"gemini-3-pro-preview":   gemini,
			"gemini-3-flash-preview": gemini,
			"gemini-2.5-pro":         gemini,
			"gemini-2.0-flash":       {MaxRPM: 150, MaxTPM: 1_000_000},
			"gemini-2.0-flash-lite":  {},
		}},
		ProviderOpenAI: {Provider: ProviderOpenAI, Models: map[string]ModelQuota{
			"gpt-4o":      gpt,
			"gpt-4o-mini": gptMini,
			"gpt-4-turbo": gpt,
			"o1":          gpt,
			"o1-mini":     gptMini,
			"o3-mini":     gptMini,
		}},
		ProviderAnthropic: {Provider: ProviderAnthropic, Models: map[string]ModelQuota{
			"claude-opus-4":    claude,
			"claude-sonnet-4":  claude,
			"claude-haiku-3.5": {MaxRPM: 50, MaxTPM: 50_000},
		}},
		ProviderLocal: {Provider: ProviderLocal, Models: map[string]ModelQuota{}},
	}
}
