package apicall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/apicall"
)

// secretKey is the key that no error may hold.
const secretKey = "AIzaSy-0123456789_abcdefghijklmnopqrstu"

// roundTripper is a transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// replyBody is a reply's body that knows whether it was closed.
type replyBody struct {
	io.Reader
	closed atomic.Bool
}

func (b *replyBody) Close() error {
	b.closed.Store(true)
	return nil
}

// replyingTo is a transport that answers every request alike.
func replyingTo(status int, b io.Reader) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{}, Body: &replyBody{Reader: b}, ContentLength: -1, Request: r,
		}, nil
	}
}

// endless reads as the same text for ever.
func endless(text string) io.Reader {
	at := 0
	return readFunc(func(p []byte) (int, error) {
		for i := range p {
			p[i] = text[at%len(text)]
			at++
		}
		return len(p), nil
	})
}

// failing reads as a text and then fails.
func failing(text string, err error) io.Reader {
	return io.MultiReader(strings.NewReader(text), readFunc(func([]byte) (int, error) { return 0, err }))
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// gemini is a counter that asks Gemini, or another server in the same way.
type gemini apicall.TokenCounter

func (c gemini) CountTokens(ctx context.Context, model, text string) (int, error) {
	return apicall.TokenCounter(c).CountTokens(ctx, apicall.Gemini, model, text)
}

// countOver counts tokens over a transport, with the secret key.
func countOver(t roundTripper) (int, error) {
	counter := gemini{APIKey: secretKey, Client: &http.Client{Transport: t}}
	return counter.CountTokens(context.Background(), "gemini-2.5-pro", "text")
}

// wantKeyless checks that err has all parts, and nothing of the key.
func wantKeyless(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %.300q, want %q in it", err, part)
		}
	}
	// The first 8 characters are of a key already.
	if strings.Contains(err.Error(), secretKey[:8]) {
		t.Errorf("the key is in the error: %.300q", err)
	}
}

// CountTokens asks Google, over the transport of http.DefaultClient.
func TestCountTokensAsksGoogle(t *testing.T) {
	var got *http.Request
	var sent []byte
	previous := http.DefaultClient.Transport
	t.Cleanup(func() { http.DefaultClient.Transport = previous })
	http.DefaultClient.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		got = r
		sent, _ = io.ReadAll(r.Body)
		return replyingTo(200, strings.NewReader(`{"totalTokens": 31, "promptTokensDetails": [{}]}`))(r)
	})

	total, err := gemini{APIKey: secretKey}.CountTokens(t.Context(), "gemini-2.5-pro", "Hello, \"world\"\nüber 你好")
	if err != nil || total != 31 {
		t.Fatalf("got %d, %v, want 31", total, err)
	}
	const address = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:countTokens"
	if got.Method != "POST" || got.URL.String() != address {
		t.Errorf("asked %s %s, want POST %s", got.Method, got.URL, address)
	}
	if key := got.Header.Values("x-goog-api-key"); len(key) != 1 || key[0] != secretKey {
		t.Errorf("key header %q", key)
	}
	if kind := got.Header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("content type %q", kind)
	}
	const want = `{"contents":[{"parts":[{"text":"Hello, \"world\"\nüber 你好"}]}]}`
	if string(sent) != want {
		t.Errorf("sent %s\nwant %s", sent, want)
	}

	if _, err := (gemini{}).CountTokens(t.Context(), "m", ""); err != nil {
		t.Error(err)
	}
	if _, found := got.Header["X-Goog-Api-Key"]; found {
		t.Error("an empty key was sent")
	}
	if want := `{"contents":[{"parts":[{"text":""}]}]}`; string(sent) != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
}

// The transport without a Client is the one that http.DefaultClient has at the
// call, and nothing but that: no jar of it, no redirects.
func TestCountTokensUsesOnlyTheDefaultTransport(t *testing.T) {
	previous := *http.DefaultClient
	t.Cleanup(func() { *http.DefaultClient = previous })
	jar, _ := cookiejar.New(nil)
	google := &url.URL{Scheme: "https", Host: "generativelanguage.googleapis.com", Path: "/"}
	jar.SetCookies(google, []*http.Cookie{{Name: "session", Value: "private"}})
	http.DefaultClient.Jar = jar
	calls := 0
	http.DefaultClient.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		calls++
		if r.Header.Get("Cookie") != "" {
			t.Error("the cookies of http.DefaultClient went along")
		}
		response, err := replyingTo(307, strings.NewReader(""))(r)
		response.Header.Set("Location", "/elsewhere")
		return response, err
	})
	_, err := gemini{APIKey: secretKey}.CountTokens(t.Context(), "m", "")
	wantKeyless(t, err, "status 307: Temporary Redirect")
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

// Every name arrives as one segment of the path.
func TestCountTokensEscapesTheModel(t *testing.T) {
	var path, query string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, query = r.URL.EscapedPath(), r.URL.RawQuery
		fmt.Fprint(w, `{"totalTokens":1}`)
	}))
	defer server.Close()
	for _, model := range []string{
		"gemini-2.5-pro", "models/gemini", "/", "a/../../b", "..", ".", "../..", "a?key=x", "a#b", "%2e%2e%2f", "%", "a b",
		" padded ", "日本語", "é", "a:generateContent", "a;b", "a\\b", "tab\tline\n\r\x00", "bad\xffutf8", "a+b&c=d", "@x", "[::1]",
	} {
		for _, base := range []string{"", "/", "/proxy/gemini", "/proxy/gemini///"} {
			path, query = "", ""
			counter := gemini{BaseURL: server.URL + base, APIKey: secretKey}
			if _, err := counter.CountTokens(t.Context(), model, "x"); err != nil {
				t.Errorf("%q: %v", model, err)
				continue
			}
			prefix := strings.TrimRight(base, "/") + "/v1beta/models/"
			segment, found := strings.CutPrefix(path, prefix)
			name, action := strings.CutSuffix(segment, ":countTokens")
			if !found || !action || strings.Contains(name, "/") || query != "" {
				t.Errorf("%q arrived as %s?%s", model, path, query)
				continue
			}
			if back, err := url.PathUnescape(name); err != nil || back != model {
				t.Errorf("%q arrived as %q (%v)", model, back, err)
			}
		}
	}
}

func TestCountTokensRefusesBadInput(t *testing.T) {
	never := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		t.Errorf("called %s", r.URL)
		return nil, errors.New("called")
	})}
	for _, model := range []string{"", " ", "\t\n", "\u00a0\u2003"} {
		counter := gemini{APIKey: secretKey, Client: never}
		_, err := counter.CountTokens(t.Context(), model, "x")
		wantKeyless(t, err, "model is blank")
	}
	for base, want := range map[string]string{
		"https://proxy.example/?key=" + secretKey:         "BaseURL has a query",
		"https://proxy.example#top":                       "BaseURL has a query or a fragment",
		"https://user:" + secretKey + "@pro xy.example":   "BaseURL is not a URL",
		"https://user:" + secretKey + "/x@proxy.example":  "BaseURL is not a URL",
		"https://user:" + secretKey + "@proxy.example:x/": "BaseURL is not a URL",
		":": "BaseURL is not a URL",
	} {
		counter := gemini{BaseURL: base, Client: never}
		_, err := counter.CountTokens(t.Context(), "m", "x")
		wantKeyless(t, err, want)
	}
	// What net/http finds on its own.
	for base, want := range map[string]string{
		"/":                    "unsupported protocol scheme",
		"proxy.example:8080":   "unsupported protocol scheme",
		"ftp://proxy.example":  "unsupported protocol scheme",
		"https://":             "no Host",
		"http://user:pass@/v1": "no Host",
	} {
		_, err := gemini{BaseURL: base}.CountTokens(t.Context(), "m", "x")
		wantKeyless(t, err, want)
		if err != nil && strings.Contains(err.Error(), "pass") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
	var noContext context.Context
	_, err := gemini{Client: never}.CountTokens(noContext, "m", "x")
	wantKeyless(t, err, "nil Context")

	// A key that cannot be a header.
	_, err = gemini{APIKey: secretKey + "\n"}.CountTokens(t.Context(), "m", "x")
	wantKeyless(t, err, "invalid header field value")
}
