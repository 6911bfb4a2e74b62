package apicall_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/apicall"
)

// others are the providers beside Gemini, and what a counter sends to them for the text "tell me".
// That a counter guards its key and the size of a reply is tested with Gemini.
var others = []struct {
	name    string
	api     *apicall.CountAPI
	address string
	header  map[string]string // with the secret key
	body    string
}{
	{
		name:    "OpenAI",
		api:     apicall.OpenAI,
		address: "https://api.openai.com/v1/responses/input_tokens",
		header:  map[string]string{"Authorization": "Bearer " + secretKey},
		body:    `{"input":"tell me","model":"some-model"}`,
	}, {
		name:    "Anthropic",
		api:     apicall.Anthropic,
		address: "https://api.anthropic.com/v1/messages/count_tokens",
		header:  map[string]string{"X-Api-Key": secretKey, "Anthropic-Version": "2023-06-01"},
		body:    `{"messages":[{"content":"tell me","role":"user"}],"model":"some-model"}`,
	},
}

func TestOtherProvidersAreAsked(t *testing.T) {
	for _, c := range others {
		t.Run(c.name, func(t *testing.T) {
			var got *http.Request
			var sent []byte
			client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				got = r
				sent, _ = io.ReadAll(r.Body)
				return replyingTo(200, strings.NewReader(`{"input_tokens": 31, "object": "x"}`))(r)
			})}
			total, err := apicall.TokenCounter{APIKey: secretKey, Client: client}.CountTokens(t.Context(), c.api, "some-model", "tell me")
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
				if _, err := (apicall.TokenCounter{BaseURL: base, Client: client}).CountTokens(t.Context(), c.api, "m", "x"); err != nil {
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

func TestOtherProvidersFail(t *testing.T) {
	const no = "reply has no input_tokens that is an integer of 0 or more"
	for _, c := range others {
		for _, reply := range []struct {
			status int
			body   string
			want   string
		}{
			{200, `{}`, no},
			{200, `{"input_tokens":-1}`, no},
			{200, `{"input_tokens":1.5}`, no},
			{200, `{"totalTokens":1}`, no},
			{200, `12`, "reply is not a JSON object"},
			{401, `{"error":{"message":"bad key ` + secretKey + `"}}`, "status 401: bad key ***"},
			{307, "", "status 307: Temporary Redirect"},
		} {
			client := &http.Client{Transport: replyingTo(reply.status, strings.NewReader(reply.body))}
			total, err := apicall.TokenCounter{APIKey: secretKey, Client: client}.CountTokens(t.Context(), c.api, "m", "x")
			if wantKeyless(t, err); err.Error() != reply.want || total != 0 {
				t.Errorf("%s, %s: got %d, %q, want %q", c.name, reply.body, total, err, reply.want)
			}
		}
		_, err := apicall.TokenCounter{APIKey: secretKey}.CountTokens(t.Context(), c.api, " ", "x")
		wantKeyless(t, err, "model is blank")
		_, err = apicall.TokenCounter{BaseURL: "https://proxy.example/?a=b", APIKey: secretKey}.CountTokens(t.Context(), c.api, "m", "x")
		wantKeyless(t, err, "BaseURL has a query")
	}
}
