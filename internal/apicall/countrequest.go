package apicall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// ErrUnsupported is the error of a call whose input no endpoint counts, by its path or because of
// a part of its body.
var ErrUnsupported = errors.New("the input of this call cannot be counted")

const (
	// requestTimeout bounds the count of a request, which the request waits for.
	requestTimeout = 10 * time.Second

	// maxTokens is the largest count that is believed.
	maxTokens = 1 << 40
)

// CountRequest asks the provider of a call to a model how many input tokens the call has: at the
// same host, over base, with the caller's headers. body is the whole body of original, which is
// neither read nor changed; both belong to one of
//
//   - OpenAI's POST .../responses and .../chat/completions, the latter counted as the response that
//     asks for the same (https://developers.openai.com/api/docs/guides/token-counting),
//   - Anthropic's POST .../messages
//     (https://platform.claude.com/docs/en/api/messages/count_tokens),
//   - Gemini's POST .../models/MODEL:generateContent and :streamGenerateContent, also on Vertex AI
//     (https://ai.google.dev/api/tokens), all read 2026-11-22.
//
// For other calls, Azure's deployments among them, it returns ErrUnsupported without a call. A
// status other than 200 is an *apicall.StatusError; a host that does not count answers 404 or 405.
// CountRequest takes at most 10 seconds, follows no redirect, and no error holds a key of a header
// or the query. It is safe for concurrent use.
func CountRequest(ctx context.Context, base http.RoundTripper, original *http.Request, body []byte) (tokens int, err error) {
	call, total, err := callFor(original, body)
	if err != nil {
		return 0, fmt.Errorf("count tokens: %w", err)
	}
	call.Client = &http.Client{Transport: base, Timeout: requestTimeout}
	reply, err := call.Do(ctx)
	if err != nil {
		return 0, fmt.Errorf("count tokens: %w", err)
	}
	tokens, err = parseTotal(reply, total)
	if err != nil {
		return 0, fmt.Errorf("count tokens: %w", err)
	}
	if int64(tokens) > maxTokens {
		return 0, fmt.Errorf("count tokens: %s is %d, at most %d", total, tokens, int64(maxTokens))
	}
	return tokens, nil
}

// count is what to ask for a call.
type count struct {
	path  string         // escaped
	body  map[string]any // is sent as JSON
	total string         // the field of the reply
}

// countOf returns what to ask for a call with an escaped path.
func countOf(path string, body fields) (count, error) {
	if strings.Contains(path, "/deployments/") { // Azure's path of a deployment has no such method
		return count{}, ErrUnsupported
	}
	if before, ok := strings.CutSuffix(path, "/chat/completions"); ok {
		return chatCount(before, body)
	}
	if strings.HasSuffix(path, "/responses") {
		return responsesCount(path, body)
	}
	if strings.HasSuffix(path, "/messages") {
		return messagesCount(path, body)
	}
	for _, method := range generateContentMethods {
		if before, ok := strings.CutSuffix(path, method); ok && strings.Contains(before, "/models/") {
			return geminiCount(before, body)
		}
	}
	return count{}, ErrUnsupported
}

// callFor returns the call that counts another one, and the field of its reply with the total.
func callFor(original *http.Request, body []byte) (call Call, total string, err error) {
	if original.Method != http.MethodPost {
		return call, "", ErrUnsupported
	}
	var read fields
	if json.Unmarshal(body, &read) != nil || read == nil {
		return call, "", errors.New("body is not a JSON object")
	}
	c, err := countOf(original.URL.EscapedPath(), read)
	if err != nil {
		return call, "", err
	}
	sent, err := json.Marshal(c.body)
	if err != nil {
		return call, "", err
	}
	address := *original.URL
	address.RawPath = c.path
	if address.Path, err = url.PathUnescape(c.path); err != nil {
		return call, "", err
	}
	query := address.Query()
	query.Del("alt") // asks Gemini for a stream
	address.RawQuery = query.Encode()
	call = Call{
		Method: http.MethodPost, URL: address.String(), Body: sent, Host: original.Host,
		Header: headerFor(original.Header), Secrets: secretsIn(original.Header, query),
	}
	return call, c.total, nil
}

// ownHeaders describe the body, the answer or the sending of one request only.
var ownHeaders = []string{
	"Accept", "Accept-Encoding", "Content-Digest", "Content-Encoding", "Content-Length", "Content-Md5",
	"Digest", "Expect", "Idempotency-Key", "Trailer", "Transfer-Encoding",
}

func headerFor(original http.Header) http.Header {
	h := original.Clone()
	if h == nil {
		h = make(http.Header)
	}
	for _, name := range ownHeaders {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	return h
}

// secretName matches the names of headers and parameters with secrets.
var secretName = regexp.MustCompile(`(?i)auth|key|token|secret|cookie|credential|signature`)

// secretsIn returns the secrets in a request: what stands in such a header, also without the
// scheme, and in such a parameter of the query, also as it is written there.
func secretsIn(h http.Header, query url.Values) (secrets []string) {
	for name, values := range h {
		if !secretName.MatchString(name) {
			continue
		}
		for _, value := range values {
			_, credentials, _ := strings.Cut(value, " ")
			secrets = append(secrets, value, credentials)
		}
	}
	for name, values := range query {
		if !secretName.MatchString(name) {
			continue
		}
		for _, value := range values {
			secrets = append(secrets, value, url.QueryEscape(value))
		}
	}
	return secrets
}
