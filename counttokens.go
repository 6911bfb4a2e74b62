package ratelimit

import (
	"context"
	"fmt"
	"net/http"

	"dappco.re/go/core/go-ratelimit/internal/apicall"
)

// TokenCounter counts tokens with the countTokens method of the Gemini API, or of a compatible
// proxy (https://ai.google.dev/api/tokens). The zero value asks Google without a key. All counters
// are safe for concurrent use while their fields stay as they are.
type TokenCounter struct {
	// BaseURL is the address in front of /v1beta, or ends in it, without query. Empty is Google's.
	BaseURL string
	APIKey  string // sent in the header x-goog-api-key; empty sends none; no error contains it
	// Client makes the call, but never follows redirects, which would carry the key along. Nil uses
	// the transport of http.DefaultClient, with a time limit of 30 seconds.
	Client *http.Client
}

// OpenAITokenCounter counts the input tokens of OpenAI's models with POST
// /v1/responses/input_tokens, or with a compatible server
// (https://developers.openai.com/api/docs/guides/token-counting, read 2026-11-22).
type OpenAITokenCounter struct {
	// BaseURL is the address in front of /v1, or ends in it, without query. Empty means OpenAI's.
	BaseURL string
	APIKey  string       // sent as the bearer token; empty sends none; no error contains it
	Client  *http.Client // as in TokenCounter
}

// AnthropicTokenCounter counts the input tokens of Anthropic's models with POST
// /v1/messages/count_tokens (https://platform.claude.com/docs/en/api/messages/count_tokens, read
// 2026-11-22), or with a compatible server. Anthropic limits these calls apart from others.
type AnthropicTokenCounter struct {
	// BaseURL is the address in front of /v1, or ends in it, without query. Empty is Anthropic's.
	BaseURL string
	APIKey  string       // sent in the header x-api-key; empty sends none; no error contains it
	Client  *http.Client // as in TokenCounter
}

// CountTokens is [TokenCounter.CountTokens] with only a key.
func CountTokens(ctx context.Context, apiKey, model, text string) (int, error) {
	return TokenCounter{APIKey: apiKey}.CountTokens(ctx, model, text)
}

// CountTokens asks how many tokens text has for model.
//
// It fails for a blank model; when the call fails (with the error of ctx, where that has ended);
// for a status other than 200 (the error has the status and the provider's message); and for a
// reply over 1 MiB or without a total that is an integer of zero or more.
func (c TokenCounter) CountTokens(ctx context.Context, model, text string) (int, error) {
	return countTokens(ctx, apicall.Gemini, apicall.TokenCounter(c), model, text)
}

// CountTokens asks how many input tokens text has for model, as the whole input of a response. The
// count includes what frames a message. It fails as [TokenCounter.CountTokens] does.
func (c OpenAITokenCounter) CountTokens(ctx context.Context, model, text string) (int, error) {
	return countTokens(ctx, apicall.OpenAI, apicall.TokenCounter(c), model, text)
}

// CountTokens asks how many input tokens text has for model, as the only message of a user. The
// count includes what frames a message; Anthropic calls it an estimate, and refuses an empty text.
// It fails as [TokenCounter.CountTokens] does.
func (c AnthropicTokenCounter) CountTokens(ctx context.Context, model, text string) (int, error) {
	return countTokens(ctx, apicall.Anthropic, apicall.TokenCounter(c), model, text)
}

// Format prints the counter without its key, with any verb.
func (c TokenCounter) Format(f fmt.State, verb rune) {
	apicall.TokenCounter(c).Hide("TokenCounter").Format(f, verb)
}

// MarshalText returns what Format prints, so that no encoder writes the key.
func (c TokenCounter) MarshalText() ([]byte, error) {
	return apicall.TokenCounter(c).Hide("TokenCounter").MarshalText()
}

// Format prints the counter without its key, with any verb.
func (c OpenAITokenCounter) Format(f fmt.State, verb rune) {
	apicall.TokenCounter(c).Hide("OpenAITokenCounter").Format(f, verb)
}

// MarshalText returns what Format prints, so that no encoder writes the key.
func (c OpenAITokenCounter) MarshalText() ([]byte, error) {
	return apicall.TokenCounter(c).Hide("OpenAITokenCounter").MarshalText()
}

// Format prints the counter without its key, with any verb.
func (c AnthropicTokenCounter) Format(f fmt.State, verb rune) {
	apicall.TokenCounter(c).Hide("AnthropicTokenCounter").Format(f, verb)
}

// MarshalText returns what Format prints, so that no encoder writes the key.
func (c AnthropicTokenCounter) MarshalText() ([]byte, error) {
	return apicall.TokenCounter(c).Hide("AnthropicTokenCounter").MarshalText()
}

func countTokens(ctx context.Context, api *apicall.CountAPI, c apicall.TokenCounter, model, text string) (int, error) {
	total, err := c.CountTokens(ctx, api, model, text)
	if err != nil {
		return 0, fmt.Errorf("count tokens: %w", err)
	}
	return total, nil
}
