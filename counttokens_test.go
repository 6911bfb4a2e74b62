// Token counters: the exported ones are those of internal/apicall, where the rest is tested.

package ratelimit_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"gopkg.in/yaml.v3"
)

func ExampleTokenCounter_CountTokens() {
	// A stand-in for a proxy of the Gemini API.
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"totalTokens": 4}`)
	}))
	defer proxy.Close()

	counter := ratelimit.TokenCounter{BaseURL: proxy.URL, APIKey: "key of the proxy"}
	tokens, err := counter.CountTokens(context.Background(), "gemini-2.5-flash", "How long is this?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tokens, "tokens")
	// Output: 4 tokens
}

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

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// replying is a transport that answers every request alike.
func replying(status int, body string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	}
}

// Each counter asks its own provider, with its key, address and client, and says what failed.
func TestTokenCounters(t *testing.T) {
	const base, key = "https://proxy.example", "sk-0123456789"
	type counter interface {
		CountTokens(ctx context.Context, model, text string) (int, error)
	}
	for _, c := range []struct {
		name        string
		over        func(*http.Client) counter
		path        string
		header, key string
		total       string // the field of a reply
	}{
		{"Gemini", func(c *http.Client) counter { return ratelimit.TokenCounter{base, key, c} },
			"/v1beta/models/some-model:countTokens", "X-Goog-Api-Key", key, "totalTokens"},
		{"OpenAI", func(c *http.Client) counter { return ratelimit.OpenAITokenCounter{base, key, c} },
			"/v1/responses/input_tokens", "Authorization", "Bearer " + key, "input_tokens"},
		{"Anthropic", func(c *http.Client) counter { return ratelimit.AnthropicTokenCounter{base, key, c} },
			"/v1/messages/count_tokens", "X-Api-Key", key, "input_tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			count := func(model string, over roundTrip) (int, error) {
				return c.over(&http.Client{Transport: over}).CountTokens(t.Context(), model, "tell me")
			}
			var asked *http.Request
			var sent []byte
			total, err := count("some-model", func(r *http.Request) (*http.Response, error) {
				asked = r
				sent, _ = io.ReadAll(r.Body)
				return replying(200, fmt.Sprintf(`{%q: 31}`, c.total))(r)
			})
			if total != 31 || err != nil {
				t.Fatalf("got %d, %v, want 31", total, err)
			}
			if got := asked.URL.String(); got != base+c.path || asked.Header.Get(c.header) != c.key {
				t.Errorf("asked %s with %v", got, asked.Header)
			}
			if !strings.Contains(string(sent), `"tell me"`) {
				t.Errorf("sent %s", sent)
			}

			cause := errors.New("no route")
			for want, ask := range map[string]func() (int, error){
				"count tokens: model is blank":             func() (int, error) { return count(" ", replying(200, "")) },
				"count tokens: status 401: bad key ***":    func() (int, error) { return count("m", replying(401, "bad key "+key)) },
				"count tokens: reply is not a JSON object": func() (int, error) { return count("m", replying(200, key)) },
			} {
				if total, err := ask(); total != 0 || err == nil || err.Error() != want {
					t.Errorf("got %d, %v, want %s", total, err, want)
				}
			}
			_, err = count("m", func(*http.Request) (*http.Response, error) { return nil, cause })
			if !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "count tokens: ") {
				t.Errorf("error %v does not wrap its cause", err)
			}
		})
	}
}

func TestCountersShowNoKey(t *testing.T) {
	const key, base = "sk-secret", "https://proxy.example/v1"
	type in struct{ Counter any }
	counters := map[string][2]any{
		"TokenCounter":          {ratelimit.TokenCounter{BaseURL: base, APIKey: key}, &ratelimit.TokenCounter{BaseURL: base, APIKey: key}},
		"OpenAITokenCounter":    {ratelimit.OpenAITokenCounter{BaseURL: base, APIKey: key}, &ratelimit.OpenAITokenCounter{BaseURL: base, APIKey: key}},
		"AnthropicTokenCounter": {ratelimit.AnthropicTokenCounter{BaseURL: base, APIKey: key}, &ratelimit.AnthropicTokenCounter{BaseURL: base, APIKey: key}},
	}
	for name, both := range counters {
		for _, c := range both {
			shown := map[string]string{"Sprint": fmt.Sprint(c), "Sprintln": fmt.Sprintln("of", c)}
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T%v", "%10.3v"} {
				shown[verb] = fmt.Sprintf(verb, c)
				shown[verb+" in a struct"] = fmt.Sprintf(verb, in{c})
				shown[verb+" in a list"] = fmt.Sprintf(verb, []any{c})
			}
			for format, encode := range map[string]func(any) ([]byte, error){"json": json.Marshal, "yaml": yaml.Marshal, "xml": xml.Marshal} {
				text, err := encode(in{c})
				if err != nil {
					t.Error(err)
				}
				shown[format] = string(text)
			}
			var logged strings.Builder
			slog.New(slog.NewTextHandler(&logged, nil)).Info("", "counter", c, "in", in{c})
			slog.New(slog.NewJSONHandler(&logged, nil)).Info("", "counter", c, "in", in{c})
			shown["slog"] = logged.String()
			for by, text := range shown {
				// %x writes the text in hex where it does not refuse to.
				if strings.Contains(text, "secret") || strings.Contains(text, fmt.Sprintf("%x", key)) {
					t.Errorf("%s: %s shows %s", name, by, text)
				}
			}
			if want := fmt.Sprintf("ratelimit.%s{BaseURL:%q, APIKey:%q}", name, base, "(hidden)"); shown["%+v"] != want || shown["%#v"] != want {
				t.Errorf("%s prints %s and %s, want %s", name, shown["%+v"], shown["%#v"], want)
			}
		}
	}
}
