package ratelimit

import (
	"context"
	"fmt"
	"net/http"

	"dappco.re/go/core/go-ratelimit/internal/gemini"
)

// TokenCounter counts tokens with the countTokens method of the Gemini API, or of a compatible
// proxy (https://ai.google.dev/api/tokens). The zero value asks Google without a key. A
// TokenCounter is safe for concurrent use while its fields stay as they are.
type TokenCounter struct {
	// BaseURL is the address in front of /v1beta, without query and fragment.
	// Empty means Google's.
	BaseURL string
	// APIKey is sent in the header x-goog-api-key; empty sends none. No error contains it.
	APIKey string
	// Client makes the call, except that redirects are never followed, because they would carry
	// the key along. Nil uses the transport of http.DefaultClient, with a time limit of 30
	// seconds.
	Client *http.Client
}

// CountTokens asks the Gemini API how many tokens text has for model. It is
// [TokenCounter.CountTokens] with only a key.
func CountTokens(ctx context.Context, apiKey, model, text string) (int, error) {
	return TokenCounter{APIKey: apiKey}.CountTokens(ctx, model, text)
}

// CountTokens asks how many tokens text has for model.
//
// It fails for a blank model; when the call fails (with the error of ctx, where that has ended);
// for a status other than 200 (the error has the status and the provider's message); and for a
// reply over 1 MiB or without a total that is an integer of zero or more.
func (c TokenCounter) CountTokens(ctx context.Context, model, text string) (int, error) {
	total, err := gemini.Counter(c).CountTokens(ctx, model, text)
	if err != nil {
		return 0, fmt.Errorf("count tokens: %w", err)
	}
	return total, nil
}
