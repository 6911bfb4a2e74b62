package apicall

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The counters of the limiter's package test the safety of a Call as a whole: errors without the
// key, redirects, time limits and broken replies.

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(r *http.Request, status int, header http.Header, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestAddress(t *testing.T) {
	const provider = "https://api.example"
	for _, c := range []struct{ base, path, want string }{
		{"", "/v1/models", "https://api.example/v1/models"},
		{"http://proxy:80", "/v1/models", "http://proxy:80/v1/models"},
		{"http://proxy///", "/v1/models", "http://proxy/v1/models"},
		{"http://proxy/openai", "/v1/models", "http://proxy/openai/v1/models"},
		{"http://proxy/openai/v1", "/v1/models", "http://proxy/openai/v1/models"},
		{"http://proxy/v1/", "/v1/models", "http://proxy/v1/models"},
		{"http://proxy/v1", "/v1beta/models", "http://proxy/v1/v1beta/models"},
		{"http://v1", "/v1/models", "http://v1/v1/models"},
		{"http://proxy/av1", "/v1/models", "http://proxy/av1/v1/models"},
	} {
		if got, err := Address(c.base, provider, c.path); got != c.want || err != nil {
			t.Errorf("%s, %s: got %s, %v, want %s", c.base, c.path, got, err, c.want)
		}
	}
	for base, want := range map[string]string{
		":":             "BaseURL is not a URL",
		"http://a/?b=c": "BaseURL has a query or a fragment",
		"http://a/#b":   "BaseURL has a query or a fragment",
	} {
		if _, err := Address(base, provider, "/v1"); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", base, err, want)
		}
	}
}

func TestCallSends(t *testing.T) {
	header := http.Header{"X-Key": {"secret"}}
	var asked http.Request
	reply, err := Call{
		URL: "http://10.0.0.1/x", Header: header, Host: "api.example", MaxSize: 4,
		Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = *r
			r.Header.Set("X-Other", "set by a transport")
			return answer(r, 200, nil, "1234")
		})},
	}.Do(t.Context())
	if string(reply) != "1234" || err != nil {
		t.Fatalf("got %q, %v", reply, err)
	}
	if asked.Method != "GET" || asked.Host != "api.example" || asked.Header.Get("X-Key") != "secret" || asked.Body != nil {
		t.Errorf("asked %s of %s with %v and the body %v", asked.Method, asked.Host, asked.Header, asked.Body)
	}
	if len(header) != 1 {
		t.Errorf("the header became %v", header)
	}
	_, err = Call{URL: "http://a", MaxSize: 3, Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return answer(r, 200, nil, "1234")
	})}}.Do(t.Context())
	if err == nil || err.Error() != "reply is larger than 3 bytes" {
		t.Errorf("a long reply: %v", err)
	}
	if _, err = (Call{URL: "http://a b/", Secrets: []string{"a b"}}).Do(t.Context()); err == nil || strings.Contains(err.Error(), "a b") {
		t.Errorf("a bad URL: %v", err)
	}
}

func TestStatusErrorRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for value, want := range map[string]time.Duration{
			"":      0,
			"0":     0,
			"7":     7 * time.Second,
			" 1.5 ": 1500 * time.Millisecond,
			"-7":    0,
			"1e300": 24 * time.Hour,
			"NaN":   0,
			"soon":  0,
			now.Add(90 * time.Second).UTC().Format(http.TimeFormat):  90 * time.Second,
			now.Add(-90 * time.Second).UTC().Format(http.TimeFormat): 0,
			now.Add(90 * time.Hour).UTC().Format(http.TimeFormat):    24 * time.Hour,
		} {
			_, err := Call{URL: "http://a", Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				return answer(r, 429, http.Header{"Retry-After": {value}}, `{"error":{"message":"slow down"}}`)
			})}}.Do(t.Context())
			var status *StatusError
			if !errors.As(err, &status) || status.Status != 429 || status.Message != "slow down" || status.RetryAfter() != want {
				t.Errorf("%q: got %#v, want %v", value, err, want)
			}
		}
	})
}

// A secret that is part of another does not break that up.
func TestSecrets(t *testing.T) {
	s := secretsOf([]string{"abc", " abcdef ", "", " "})
	if got, want := s.clean("abcdef, abc and abcd"), "***, *** and ***d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := s.cleanEnd("x abcde"), "x "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if secretsOf(nil).longest() != 0 || s.longest() != 6 {
		t.Errorf("longest %d and %d", secretsOf(nil).longest(), s.longest())
	}
}
