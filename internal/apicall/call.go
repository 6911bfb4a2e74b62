// Package apicall makes single calls to the APIs of providers: no key in an error, no redirect
// followed, a bounded reply, a time limit. Package accountlimits asks for limits by it. It also
// asks how many tokens a text or a whole request has: the token counters of the limiter's package
// count texts by it (TokenCounter), and llmhttp, for Transport.CountAbove, requests (CountRequest).
package apicall

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	timeout    = 30 * time.Second
	maxReply   = 1 << 20
	maxMessage = 8 << 10
)

// Call is one call. It is safe for concurrent use while its fields stay as they are.
type Call struct {
	Method  string       // "" for GET
	URL     string       // see Address
	Header  http.Header  // is not changed
	Body    []byte       // nil for none
	Host    string       // the header Host; "" for the one of URL
	Secrets []string     // what no error may hold, such as the key
	Client  *http.Client // nil for the transport of http.DefaultClient and a limit of 30 seconds
	MaxSize int          // of the reply, in bytes; 0 for 1 MiB
}

// Do makes the call and returns the body of a reply with status 200. Another status is a
// *StatusError. Where ctx has ended, the error matches its error. No error holds a secret.
func (c Call) Do(ctx context.Context) ([]byte, error) {
	hidden := secretsOf(c.Secrets)
	reply, err := c.do(ctx, hidden)
	if err != nil {
		return nil, hidden.redact(err)
	}
	return reply, nil
}

func (c Call) do(ctx context.Context, hidden secrets) ([]byte, error) {
	var content io.Reader
	if c.Body != nil {
		content = bytes.NewReader(c.Body)
	}
	request, err := http.NewRequestWithContext(ctx, c.Method, c.URL, content)
	if err != nil {
		return nil, err
	}
	if c.Header != nil {
		request.Header = c.Header.Clone()
	}
	if c.Host != "" {
		request.Host = c.Host
	}
	response, err := c.client().Do(request)
	if err != nil {
		return nil, withContextError(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, statusError(ctx, response, hidden)
	}
	size := cmp.Or(c.MaxSize, maxReply)
	reply, err := io.ReadAll(io.LimitReader(response.Body, int64(size)+1))
	if err != nil {
		return nil, withContextError(ctx, fmt.Errorf("read reply: %w", err))
	}
	if len(reply) > size {
		return nil, fmt.Errorf("reply is larger than %d bytes", size)
	}
	return reply, nil
}

// client returns a client that never follows a redirect, because that would carry the key along.
func (c Call) client() *http.Client {
	client := http.Client{Transport: http.DefaultClient.Transport, Timeout: timeout}
	if c.Client != nil {
		client = *c.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// statusError returns a *StatusError with the provider's message, in at most maxMessage bytes.
func statusError(ctx context.Context, response *http.Response, hidden secrets) error {
	// There is room for a key that lies across the end.
	limit := maxMessage + hidden.longest()
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)))
	// Bytes that are no text have to go before the key does: between two parts of
	// it they would hide it.
	message := hidden.clean(strings.ToValidUTF8(providerMessage(body), ""))
	if err != nil || len(body) == limit {
		message = hidden.cleanEnd(message)
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "")
	}
	said := &StatusError{
		Status:  response.StatusCode,
		Message: cmp.Or(message, http.StatusText(response.StatusCode), "no message"),
		after:   retryAfter(response.Header, time.Now()),
	}
	if err != nil {
		return withContextError(ctx, fmt.Errorf("%w: read reply: %w", said, err))
	}
	return said
}

// providerMessage is the message in the JSON of an API error, as Google, OpenAI and Anthropic
// write it, or the whole text of another reply.
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

// withContextError makes err match the error of ctx, where that has ended. net/http returns the
// cause of a cancellation instead, and other transports any error.
func withContextError(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}
