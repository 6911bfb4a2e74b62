// Package gemini counts tokens with the countTokens method of the Gemini API
// (https://ai.google.dev/api/tokens). TokenCounter of the limiter's package is its only user.
package gemini

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	googleURL = "https://generativelanguage.googleapis.com"

	countTimeout    = 30 * time.Second
	maxCountReply   = 1 << 20
	maxCountMessage = 8 << 10
)

// Counter has the fields of TokenCounter in the same order, so that one converts to the other.
// It is safe for concurrent use while its fields stay as they are.
type Counter struct {
	BaseURL string       // the address in front of /v1beta; "" for Google's
	APIKey  string       // goes out in a header, and is in no error
	Client  *http.Client // redirects are never followed; nil for the default transport
}

// CountTokens asks how many tokens text has for model. The error never holds the key.
func (c Counter) CountTokens(ctx context.Context, model, text string) (int, error) {
	total, err := c.count(ctx, model, text)
	if err != nil {
		return 0, c.redact(err)
	}
	return total, nil
}

func (c Counter) count(ctx context.Context, model, text string) (int, error) {
	if strings.TrimSpace(model) == "" {
		return 0, errors.New("model is blank")
	}
	request, err := c.request(ctx, model, text)
	if err != nil {
		return 0, err
	}
	response, err := c.client().Do(request)
	if err != nil {
		return 0, withContextError(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, c.statusError(ctx, response)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxCountReply+1))
	if err != nil {
		return 0, withContextError(ctx, fmt.Errorf("read reply: %w", err))
	}
	return parseTotal(body)
}

func (c Counter) request(ctx context.Context, model, text string) (*http.Request, error) {
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
	base := googleURL
	if c.BaseURL != "" {
		base = strings.TrimRight(c.BaseURL, "/")
	}
	// The value is in neither error: it may hold the password of a proxy.
	if _, err := url.Parse(base); err != nil {
		return nil, errors.New("BaseURL is not a URL")
	}
	if strings.ContainsAny(base, "?#") {
		return nil, errors.New("BaseURL has a query or a fragment")
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

func (c Counter) client() *http.Client {
	client := http.Client{Transport: http.DefaultClient.Transport, Timeout: countTimeout}
	if c.Client != nil {
		client = *c.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// statusError returns the provider's message, in at most maxCountMessage bytes.
func (c Counter) statusError(ctx context.Context, response *http.Response) error {
	// There is room for a key that lies across the end.
	limit := maxCountMessage + len(c.APIKey)
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)))
	// Bytes that are no text have to go before the key does: between two parts of
	// it they would hide it.
	message := c.withoutKey(strings.ToValidUTF8(providerMessage(body), ""))
	if err != nil || len(body) == limit {
		message = c.withoutKeyPart(message)
	}
	if len(message) > maxCountMessage {
		message = strings.ToValidUTF8(message[:maxCountMessage], "")
	}
	message = cmp.Or(message, http.StatusText(response.StatusCode), "no message")
	said := fmt.Errorf("status %d: %s", response.StatusCode, message)
	if err != nil {
		return withContextError(ctx, fmt.Errorf("%w: read reply: %w", said, err))
	}
	return said
}

// providerMessage is the message in the JSON of a Google API error, or the whole
// text of another reply.
func providerMessage(body []byte) string {
	var reply struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &reply) == nil && reply.Error.Message != "" {
		return reply.Error.Message
	}
	return strings.TrimSpace(string(body))
}

// parseTotal reads the reply of countTokens. Its errors contain no part of the reply.
func parseTotal(body []byte) (int, error) {
	if len(body) > maxCountReply {
		return 0, fmt.Errorf("reply is larger than %d bytes", maxCountReply)
	}
	// A struct would take the names in any case: "TOTALTOKENS" too.
	var reply map[string]json.RawMessage
	if json.Unmarshal(body, &reply) != nil {
		return 0, errors.New("reply is not a JSON object")
	}
	var total *int
	if json.Unmarshal(reply["totalTokens"], &total) != nil || total == nil || *total < 0 {
		return 0, errors.New("reply has no totalTokens that is an integer of 0 or more")
	}
	return *total, nil
}

// withContextError makes err match the error of ctx, where that has ended. net/http returns the
// cause of a cancellation instead, and other transports any error.
func withContextError(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

// key is the key as a server gets it, without the space around it.
func (c Counter) key() string { return strings.TrimSpace(c.APIKey) }

// withoutKey returns text without the key.
func (c Counter) withoutKey(text string) string {
	if c.key() == "" {
		return text
	}
	return strings.ReplaceAll(text, c.key(), "***")
}

// withoutKeyPart removes from the end of a truncated text the beginning of a key.
func (c Counter) withoutKeyPart(text string) string {
	for part := c.key(); part != ""; part = part[:len(part)-1] {
		if before, found := strings.CutSuffix(text, part); found {
			return before
		}
	}
	return text
}

// redact removes the key from an error. An error that held it no longer unwraps, except to the
// cause of the end of the context.
func (c Counter) redact(err error) error {
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
