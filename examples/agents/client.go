package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	callTimeout  = 5 * time.Minute // local models are slow
	retryDefault = 5 * time.Second // for a 429 without a usable Retry-After
	maxAnswer    = 16 << 20        // bytes that are read of an answer
	maxMessage   = 300             // characters that are shown of an error
)

// client calls one OpenAI-compatible endpoint.
type client struct {
	url  *url.URL
	key  string // empty for none
	http *http.Client
}

// usage is the usage of a call as the provider reports it.
type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// refusedError is an answer of 429.
type refusedError struct {
	after   time.Duration // how long the provider wants us to wait
	final   bool          // waiting does not help
	message string
}

func (e *refusedError) Error() string {
	if e.final {
		return "refused (429): " + e.message
	}
	return fmt.Sprintf("refused (429), try again in %v: %s", e.after, e.message)
}

// newClient returns a client for the endpoint at base, such as
// https://api.openai.com/v1, with room for conns calls at the same time.
func newClient(base, key string, conns int) (*client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("base URL: %q, want http://… or https://…", u.Redacted())
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = conns
	transport.Proxy = proxyFor
	return &client{
		url: u.JoinPath("chat", "completions"),
		key: key,
		http: &http.Client{
			Transport: transport,
			Timeout:   callTimeout,
			// A redirect would take the key elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// proxyFor uses the environment's proxy for https only: plain http would show it
// everything, the key included.
func proxyFor(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// host names the endpoint for people.
func (c *client) host() string { return c.url.Host }

// close closes the connections that are kept open for more calls.
func (c *client) close() { c.http.CloseIdleConnections() }

// chat sends one chat completion. An answer of 429 is a *refusedError. It calls
// arrived when the head of the answer is there: the provider has counted the call
// by then.
func (c *client) chat(ctx context.Context, body []byte, arrived func(time.Time)) (usage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return usage{}, fmt.Errorf("chat completion: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return usage{}, fmt.Errorf("chat completion: %w", err)
	}
	defer resp.Body.Close()
	arrived(time.Now())
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return usage{}, fmt.Errorf("chat completion: read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return usage{}, c.failure(resp, answer)
	}
	var completion struct {
		Choices []struct{} `json:"choices"`
		Usage   usage      `json:"usage"`
	}
	if err := json.Unmarshal(answer, &completion); err != nil {
		return usage{}, fmt.Errorf("chat completion: decode answer: %w", err)
	}
	if len(completion.Choices) == 0 {
		return usage{}, errors.New("chat completion: the answer has no choices")
	}
	return completion.Usage, nil
}

// failure makes the error for an answer other than 200.
func (c *client) failure(resp *http.Response, answer []byte) error {
	var body struct {
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	message := string(answer)
	if err := json.Unmarshal(answer, &body); err == nil && body.Error.Message != "" {
		message = body.Error.Message
	}
	message = c.printable(message)
	if resp.StatusCode != http.StatusTooManyRequests {
		return fmt.Errorf("chat completion: %s: %s", resp.Status, message)
	}
	return &refusedError{
		after:   retryAfter(resp.Header),
		final:   body.Error.Code == "insufficient_quota",
		message: message,
	}
}

// printable makes a message from outside fit for the terminal: short, without
// control characters, and without the key, which some servers repeat.
func (c *client) printable(message string) string {
	if c.key != "" {
		message = strings.ReplaceAll(message, c.key, "[key]")
	}
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage]) + "…"
	}
	return strconv.Quote(message)
}

// retryAfter reads the header Retry-After in seconds, as LLM providers send it.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseFloat(header.Get("Retry-After"), 64)
	if err != nil || !(seconds >= 0 && seconds <= 24*60*60) {
		return retryDefault
	}
	return time.Duration(seconds * float64(time.Second))
}
