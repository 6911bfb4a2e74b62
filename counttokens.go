package ratelimit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	geminiBaseURL = "https://generativelanguage.googleapis.com"

	countTimeout   = 30 * time.Second
	maxCountReply  = 1 << 20
	maxCountErrors = 8 << 10
)

// TokenCounter counts tokens with the countTokens method of the Gemini API, or
// of a proxy that speaks it (https://ai.google.dev/api/tokens). The zero value
// asks Google without a key. A TokenCounter is safe for concurrent use while its
// fields stay as they are.
type TokenCounter struct {
	// BaseURL is the address in front of /v1beta. Empty means Google's.
	BaseURL string
	// APIKey goes out in the header x-goog-api-key; empty sends none. It is in
	// no error.
	APIKey string
	// Client makes the call, except that redirects are never followed, because
	// the key would go along. Nil uses the transport of http.DefaultClient, with
	// a time limit of 30 seconds.
	Client *http.Client
}

// CountTokens asks the Gemini API how many tokens text has for model. It is
// [TokenCounter.CountTokens] with nothing but a key.
func CountTokens(ctx context.Context, apiKey, model, text string) (int, error) {
	return TokenCounter{APIKey: apiKey}.CountTokens(ctx, model, text)
}

// CountTokens asks how many tokens text has for model.
//
// It fails for a blank model, when the call fails (with the error of ctx, where
// that has ended), for a status other than 200 (the error has its number and the
// provider's message), and for a reply over 1 MiB or without a total that is an
// integer of zero or more.
func (c TokenCounter) CountTokens(ctx context.Context, model, text string) (int, error) {
	total, err := c.count(ctx, model, text)
	if err != nil {
		return 0, fmt.Errorf("count tokens: %w", c.redact(err))
	}
	return total, nil
}

func (c TokenCounter) count(ctx context.Context, model, text string) (int, error) {
	if strings.TrimSpace(model) == "" {
		return 0, errors.New("model is blank")
	}
	request, err := c.request(ctx, model, text)
	if err != nil {
		return 0, err
	}
	response, err := c.client().Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, c.statusError(response)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxCountReply+1))
	if err != nil {
		return 0, fmt.Errorf("read reply: %w", err)
	}
	return parseTotal(body)
}

func (c TokenCounter) request(ctx context.Context, model, text string) (*http.Request, error) {
	type part struct {
		Text string `json:"text"`
	}
	type content struct {
		Parts []part `json:"parts"`
	}
	body, err := json.Marshal(struct {
		Contents []content `json:"contents"`
	}{[]content{{[]part{{text}}}}})
	if err != nil {
		return nil, err
	}
	base := strings.TrimRight(c.BaseURL, "/")
	if base == "" {
		base = geminiBaseURL
	}
	address := base + "/v1beta/models/" + url.PathEscape(model) + ":countTokens"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.APIKey != "" {
		request.Header.Set("x-goog-api-key", c.APIKey)
	}
	return request, nil
}

func (c TokenCounter) client() *http.Client {
	client := http.Client{Transport: http.DefaultClient.Transport, Timeout: countTimeout}
	if c.Client != nil {
		client = *c.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// statusError tells what the provider said, in at most maxCountErrors bytes.
func (c TokenCounter) statusError(response *http.Response) error {
	// Room for a key that lies across the end: redacted before the cut, no part
	// of it stays.
	body, _ := io.ReadAll(io.LimitReader(response.Body, int64(maxCountErrors+len(c.APIKey))))
	message := strings.TrimSpace(string(body))
	var reply struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &reply) == nil && reply.Error.Message != "" {
		message = reply.Error.Message
	}
	message = c.withoutKey(message)
	if len(message) > maxCountErrors {
		message = message[:maxCountErrors]
	}
	return fmt.Errorf("status %d: %s", response.StatusCode, strings.ToValidUTF8(message, ""))
}

// parseTotal reads the reply of countTokens.
func parseTotal(body []byte) (int, error) {
	if len(body) > maxCountReply {
		return 0, fmt.Errorf("reply is larger than %d bytes", maxCountReply)
	}
	var reply struct {
		TotalTokens *int64 `json:"totalTokens"`
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return 0, fmt.Errorf("reply: %w", err)
	}
	switch {
	case reply.TotalTokens == nil:
		return 0, errors.New("reply: totalTokens is missing")
	case *reply.TotalTokens < 0 || *reply.TotalTokens > math.MaxInt:
		return 0, fmt.Errorf("reply: totalTokens is %d, want 0 or more", *reply.TotalTokens)
	}
	return int(*reply.TotalTokens), nil
}

func (c TokenCounter) withoutKey(text string) string {
	if c.APIKey == "" {
		return text
	}
	return strings.ReplaceAll(text, c.APIKey, "[key]")
}

// redact takes the key out of an error, whoever put it there. An error that held
// it can no longer be unwrapped, except to why the context ended.
func (c TokenCounter) redact(err error) error {
	text := err.Error()
	clean := c.withoutKey(text)
	if clean == text {
		return err
	}
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, cause) {
			return fmt.Errorf("%s: %w", clean, cause)
		}
	}
	return errors.New(clean)
}
