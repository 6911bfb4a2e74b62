package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// provider answers chat completions and enforces its limits as OpenAI does. It is the
// judge of this program, so it shares no code with the limiter, nor with the estimate of
// the agents.
type provider struct {
	window  window
	latency func() time.Duration // until an answer is ready
}

// newProvider returns a provider with limits for a minute. Zero is unlimited.
func newProvider(rpm, tpm int) *provider {
	return &provider{
		window:  window{maxRequests: rpm, maxTokens: tpm},
		latency: func() time.Duration { return 50*time.Millisecond + rand.N(350*time.Millisecond) },
	}
}

// window holds the admissions of the last minute. It is safe for concurrent use.
type window struct {
	maxRequests, maxTokens int

	mu       sync.Mutex
	admitted []charge // oldest first
	tokens   int      // their sum
}

type charge struct {
	at     time.Time
	tokens int
}

// admit charges a request that arrives at now if it fits. Otherwise it names the limit in
// the way, and when the request fits if no other comes; for a request larger than the
// limit, when the window is empty.
func (w *window) admit(now time.Time, tokens int) (limit string, retry time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.admitted) > 0 && now.Sub(w.admitted[0].at) >= time.Minute {
		w.tokens -= w.admitted[0].tokens
		w.admitted = w.admitted[1:]
	}
	if limit = w.denies(len(w.admitted), w.tokens, tokens); limit == "" {
		w.admitted = append(w.admitted, charge{now, tokens})
		w.tokens += tokens
		return "", 0
	}
	used := w.tokens
	for i, c := range w.admitted {
		used -= c.tokens
		retry = c.at.Add(time.Minute).Sub(now)
		if w.denies(len(w.admitted)-i-1, used, tokens) == "" {
			break
		}
	}
	return limit, retry
}

// denies names the limit that a request exceeds together with the present usage.
func (w *window) denies(requests, used, tokens int) string {
	switch {
	case w.maxRequests > 0 && requests+1 > w.maxRequests:
		return "requests per min (RPM)"
	case w.maxTokens > 0 && used+tokens > w.maxTokens:
		return "tokens per min (TPM)"
	}
	return ""
}

// chatRequest holds the fields of a call that the provider reads.
type chatRequest struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Messages  []struct {
		Content any `json:"content"`
	} `json:"messages"`
}

// chargeFor is OpenAI's published rule for the tokens per minute of a call: the larger of
// max_tokens and the tokens of the prompt, estimated from its characters.
func chargeFor(r *chatRequest) int {
	return max(r.MaxTokens, promptTokens(r))
}

func promptTokens(r *chatRequest) int {
	characters := 0
	for _, m := range r.Messages {
		text, ok := m.Content.(string)
		if !ok {
			parts, _ := json.Marshal(m.Content) // it came from JSON
			text = string(parts)
		}
		characters += utf8.RuneCountInString(text)
	}
	return (characters + 3) / 4
}

// ServeHTTP answers POST /v1/chat/completions.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
		fail(w, http.StatusNotFound, "invalid_request_error", "unknown_url", "POST /v1/chat/completions is all there is")
		return
	}
	var chat chatRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<24)).Decode(&chat); err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", "invalid_json", err.Error())
		return
	}
	if limit, retry := p.window.admit(arrived, chargeFor(&chat)); limit != "" {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((retry+time.Second-1)/time.Second), 10))
		fail(w, http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded",
			fmt.Sprintf("Rate limit reached for %s on %s.", chat.Model, limit))
		return
	}
	select {
	case <-time.After(p.latency()):
		reply(w, &chat, arrived)
	case <-r.Context().Done():
	}
}

// reply writes a completion. The answer is always the same; its length in the
// usage is not, but never more than was asked for.
func reply(w http.ResponseWriter, chat *chatRequest, created time.Time) {
	prompt, output := promptTokens(chat), 1+rand.IntN(max(chat.MaxTokens, 1))
	write(w, http.StatusOK, map[string]any{
		"id": fmt.Sprintf("chatcmpl-%016x", rand.Uint64()), "object": "chat.completion",
		"created": created.Unix(), "model": chat.Model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop",
			"message": map[string]string{"role": "assistant", "content": "The built-in server knows no other answer."},
		}},
		"usage": map[string]int{
			"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
		},
	})
}

// fail writes an error in OpenAI's form.
func fail(w http.ResponseWriter, status int, kind, code, message string) {
	write(w, status, map[string]any{"error": map[string]any{
		"message": message, "type": kind, "param": nil, "code": code,
	}})
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // an error means that the client has gone
}

// server is a provider that listens on the loopback interface.
type server struct {
	url   string
	close func()
}

func startServer(p *provider) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	s := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	var wg sync.WaitGroup
	wg.Go(func() { s.Serve(listener) }) // returns when s is closed
	return &server{
		url: "http://" + listener.Addr().String() + "/v1",
		close: func() {
			s.Close()
			wg.Wait()
		},
	}, nil
}
