package otelratelimit

import ratelimit "dappco.re/go/core/go-ratelimit"

// providerNames are the values of gen_ai.provider.name that differ from the names of this library.
// Providers that the conventions do not list keep theirs, as the conventions allow.
var providerNames = map[ratelimit.Provider]string{
	ratelimit.ProviderGemini:  "gcp.gemini",
	ratelimit.ProviderVertex:  "gcp.vertex_ai",
	ratelimit.ProviderAzure:   "azure.ai.openai",
	ratelimit.ProviderBedrock: "aws.bedrock",
	ratelimit.ProviderMistral: "mistral_ai",
	ratelimit.ProviderXAI:     "x_ai",
}

func providerName(p ratelimit.Provider) string {
	if name, ok := providerNames[p]; ok {
		return name
	}
	return string(p)
}
