// OpenAITokenCounter and AnthropicTokenCounter: what they ask, and what they read. That the three
// counters share their safety is tested with TokenCounter.

package ratelimit_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func ExampleOpenAITokenCounter_CountTokens() {
	// A stand-in for OpenAI.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"object": "response.input_tokens", "input_tokens": 11}`)
	}))
	defer server.Close()

	counter := ratelimit.OpenAITokenCounter{BaseURL: server.URL, APIKey: "key"}
	tokens, err := counter.CountTokens(context.Background(), "gpt-5", "How long is this?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tokens, "tokens")
	// Output: 11 tokens
}

func ExampleAnthropicTokenCounter_CountTokens() {
	// A stand-in for Anthropic.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"input_tokens": 12}`)
	}))
	defer server.Close()

	counter := ratelimit.AnthropicTokenCounter{BaseURL: server.URL, APIKey: "key"}
	tokens, err := counter.CountTokens(context.Background(), "claude-sonnet-4-5", "How long is this?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tokens, "tokens")
	// Output: 12 tokens
}

// tokenCounter is what the three counters have in common.
type tokenCounter interface {
	CountTokens(ctx context.Context, model, text string) (int, error)
}

// otherCounters are the counters beside TokenCounter, and what they send for the text "tell me".
var otherCounters = []struct {
	name    string
	make    func(base, key string, client *http.Client) tokenCounter
	address string
	header  map[string]string // with the secret key
	body    string
}{
	{
		name: "OpenAI",
		make: func(base, key string, client *http.Client) tokenCounter {
			return ratelimit.OpenAITokenCounter{BaseURL: base, APIKey: key, Client: client}
		},
		address: "https://api.openai.com/v1/responses/input_tokens",
		header:  map[string]string{"Authorization": "Bearer " + secretKey},
		body:    `{"input":"tell me","model":"some-model"}`,
	}, {
		name: "Anthropic",
		make: func(base, key string, client *http.Client) tokenCounter {
			return ratelimit.AnthropicTokenCounter{BaseURL: base, APIKey: key, Client: client}
		},
		address: "https://api.anthropic.com/v1/messages/count_tokens",
		header:  map[string]string{"X-Api-Key": secretKey, "Anthropic-Version": "2023-06-01"},
		body:    `{"messages":[{"content":"tell me","role":"user"}],"model":"some-model"}`,
	},
}

func TestOtherTokenCountersAsk(t *testing.T) {
	for _, c := range otherCounters {
		t.Run(c.name, func(t *testing.T) {
			var got *http.Request
			var sent []byte
			client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				got = r
				sent, _ = io.ReadAll(r.Body)
				return replying(200, strings.NewReader(`{"input_tokens": 31, "object": "x"}`))(r)
			})}
			total, err := c.make("", secretKey, client).CountTokens(t.Context(), "some-model", "tell me")
			if err != nil || total != 31 {
				t.Fatalf("got %d, %v, want 31", total, err)
			}
			if got.Method != "POST" || got.URL.String() != c.address {
				t.Errorf("asked %s %s, want POST %s", got.Method, got.URL, c.address)
			}
			for name, want := range c.header {
				if have := got.Header.Values(name); len(have) != 1 || have[0] != want {
					t.Errorf("header %s: %q, want %q", name, have, want)
				}
			}
			if kind := got.Header.Get("Content-Type"); kind != "application/json" {
				t.Errorf("content type %q", kind)
			}
			if string(sent) != c.body {
				t.Errorf("sent %s, want %s", sent, c.body)
			}

			_, path, _ := strings.Cut(strings.TrimPrefix(c.address, "https://"), "/")
			for _, base := range []string{
				"http://proxy.example:8080", "http://proxy.example:8080/", "http://proxy.example:8080/v1",
				"http://proxy.example:8080/v1/",
			} {
				if _, err := c.make(base, "", client).CountTokens(t.Context(), "m", "x"); err != nil {
					t.Fatal(err)
				}
				if want := "http://proxy.example:8080/" + path; got.URL.String() != want {
					t.Errorf("%s: asked %s, want %s", base, got.URL, want)
				}
				for _, name := range []string{"Authorization", "X-Api-Key"} {
					if _, found := got.Header[name]; found {
						t.Errorf("an empty key was sent in %s", name)
					}
				}
			}
		})
	}
}

func TestOtherTokenCountersFail(t *testing.T) {
	const no = "count tokens: reply has no input_tokens that is an integer of 0 or more"
	for _, c := range otherCounters {
		for _, reply := range []struct {
			status int
			body   string
			want   string
		}{
			{200, `{}`, no},
			{200, `{"input_tokens":-1}`, no},
			{200, `{"input_tokens":1.5}`, no},
			{200, `{"totalTokens":1}`, no},
			{200, `12`, "count tokens: reply is not a JSON object"},
			{401, `{"error":{"message":"bad key ` + secretKey + `"}}`, "count tokens: status 401: bad key ***"},
			{307, "", "count tokens: status 307: Temporary Redirect"},
		} {
			client := &http.Client{Transport: replying(reply.status, strings.NewReader(reply.body))}
			total, err := c.make("", secretKey, client).CountTokens(t.Context(), "m", "x")
			if wantKeyless(t, err); err.Error() != reply.want || total != 0 {
				t.Errorf("%s, %s: got %d, %q, want %q", c.name, reply.body, total, err, reply.want)
			}
		}
		_, err := c.make("", secretKey, nil).CountTokens(t.Context(), " ", "x")
		wantKeyless(t, err, "count tokens: model is blank")
		_, err = c.make("https://proxy.example/?a=b", secretKey, nil).CountTokens(t.Context(), "m", "x")
		wantKeyless(t, err, "count tokens: BaseURL has a query")
	}
}
