package ratelimit_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// secretKey is the key that no error may hold.
const secretKey = "AIzaSy-0123456789_abcdefghijklmnopqrstu"

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

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// replyBody is a reply's body that knows whether it was closed.
type replyBody struct {
	io.Reader
	closed atomic.Bool
}

func (b *replyBody) Close() error {
	b.closed.Store(true)
	return nil
}

// replying is a transport that answers every request alike.
func replying(status int, b io.Reader) roundTrip {
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

// countOver counts tokens over a transport, with the secret key.
func countOver(t roundTrip) (int, error) {
	counter := ratelimit.TokenCounter{APIKey: secretKey, Client: &http.Client{Transport: t}}
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
	http.DefaultClient.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		got = r
		sent, _ = io.ReadAll(r.Body)
		return replying(200, strings.NewReader(`{"totalTokens": 31, "promptTokensDetails": [{}]}`))(r)
	})

	total, err := ratelimit.CountTokens(t.Context(), secretKey, "gemini-2.5-pro", "Hello, \"world\"\nüber 你好")
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

	if _, err := ratelimit.CountTokens(t.Context(), "", "m", ""); err != nil {
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
	http.DefaultClient.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		calls++
		if r.Header.Get("Cookie") != "" {
			t.Error("the cookies of http.DefaultClient went along")
		}
		response, err := replying(307, strings.NewReader(""))(r)
		response.Header.Set("Location", "/elsewhere")
		return response, err
	})
	_, err := ratelimit.CountTokens(t.Context(), secretKey, "m", "")
	wantKeyless(t, err, "status 307: Temporary Redirect")
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

// Whatever the name, it arrives as one segment of the path.
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
			counter := ratelimit.TokenCounter{BaseURL: server.URL + base, APIKey: secretKey}
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
	never := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		t.Errorf("called %s", r.URL)
		return nil, errors.New("called")
	})}
	for _, model := range []string{"", " ", "\t\n", "\u00a0\u2003"} {
		counter := ratelimit.TokenCounter{APIKey: secretKey, Client: never}
		_, err := counter.CountTokens(t.Context(), model, "x")
		wantKeyless(t, err, "count tokens: model is blank")
	}
	for base, want := range map[string]string{
		"https://proxy.example/?key=" + secretKey:         "BaseURL has a query",
		"https://proxy.example#top":                       "BaseURL has a query or a fragment",
		"https://user:" + secretKey + "@pro xy.example":   "BaseURL is not a URL",
		"https://user:" + secretKey + "/x@proxy.example":  "BaseURL is not a URL",
		"https://user:" + secretKey + "@proxy.example:x/": "BaseURL is not a URL",
		":": "BaseURL is not a URL",
	} {
		counter := ratelimit.TokenCounter{BaseURL: base, Client: never}
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
		_, err := ratelimit.TokenCounter{BaseURL: base}.CountTokens(t.Context(), "m", "x")
		wantKeyless(t, err, want)
		if err != nil && strings.Contains(err.Error(), "pass") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
	var noContext context.Context
	_, err := ratelimit.TokenCounter{Client: never}.CountTokens(noContext, "m", "x")
	wantKeyless(t, err, "nil Context")

	// A key that cannot be a header.
	_, err = ratelimit.TokenCounter{APIKey: secretKey + "\n"}.CountTokens(t.Context(), "m", "x")
	wantKeyless(t, err, "invalid header field value")
}

// The key goes to the address that it was meant for, and to no other.
func TestCountTokensFollowsNoRedirect(t *testing.T) {
	var seen atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		fmt.Fprint(w, `{"totalTokens":1}`)
	}))
	defer other.Close()
	var status int
	var location string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/again") {
			seen.Add(1)
		}
		w.Header().Set("Location", location)
		w.WriteHeader(status)
		io.WriteString(w, "moved")
	}))
	defer server.Close()
	asked := 0
	clients := map[string]*http.Client{
		"no client": nil,
		"client":    {},
		"client that follows": {CheckRedirect: func(*http.Request, []*http.Request) error {
			asked++
			return nil
		}},
	}
	for name, client := range clients {
		for _, status = range []int{301, 302, 303, 307, 308} {
			for _, location = range []string{other.URL + "/x", server.URL + "/again", "/again", ""} {
				counter := ratelimit.TokenCounter{BaseURL: server.URL, APIKey: secretKey, Client: client}
				total, err := counter.CountTokens(t.Context(), "m", "x")
				if err == nil || total != 0 {
					t.Errorf("%s, %d to %q: got %d, %v", name, status, location, total, err)
					continue
				}
				if location != "" {
					wantKeyless(t, err, fmt.Sprintf("status %d: moved", status))
				}
			}
			location = "http://bad host/" + secretKey // which net/http quotes in its error
			counter := ratelimit.TokenCounter{BaseURL: server.URL, APIKey: secretKey, Client: client}
			_, err := counter.CountTokens(t.Context(), "m", "x")
			wantKeyless(t, err, "count tokens: ")
		}
	}
	if seen.Load() != 0 || asked != 0 {
		t.Errorf("followed %d redirects, asked %d times", seen.Load(), asked)
	}
}

func TestCountTokensUsesTheClient(t *testing.T) {
	var cookie string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie = r.Header.Get("Cookie")
		fmt.Fprint(w, `{"totalTokens":7}`)
	}))
	defer server.Close()
	address, _ := url.Parse(server.URL)
	jar, _ := cookiejar.New(nil)
	jar.SetCookies(address, []*http.Cookie{{Name: "session", Value: "1"}})
	calls, redirects := 0, 0
	client := &http.Client{
		Jar:     jar,
		Timeout: time.Minute,
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			calls++
			return http.DefaultTransport.RoundTrip(r)
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			redirects++
			return nil
		},
	}
	counter := ratelimit.TokenCounter{BaseURL: server.URL, APIKey: secretKey, Client: client}
	if total, err := counter.CountTokens(t.Context(), "m", "x"); err != nil || total != 7 {
		t.Fatalf("got %d, %v, want 7", total, err)
	}
	if cookie != "session=1" || calls != 1 {
		t.Errorf("cookie %q, %d calls, want the client's own jar and transport", cookie, calls)
	}
	if client.Jar != jar || client.Timeout != time.Minute || client.CheckRedirect(nil, nil) != nil || redirects != 1 {
		t.Error("the client was changed")
	}
}

// The client's time limit counts; without a client it is 30 seconds.
func TestCountTokensTimeLimit(t *testing.T) {
	never := roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	previous := http.DefaultClient.Transport
	t.Cleanup(func() { http.DefaultClient.Transport = previous })
	http.DefaultClient.Transport = never
	for want, client := range map[time.Duration]*http.Client{
		30 * time.Second: nil,
		3 * time.Minute:  {Transport: never, Timeout: 3 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := ratelimit.TokenCounter{APIKey: secretKey, Client: client}.CountTokens(t.Context(), "m", "x")
			wantKeyless(t, err)
			if took := time.Since(start); took != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %v, want context.DeadlineExceeded after %v", took, err, want)
			}
		})
	}
}

func TestCountTokensStatus(t *testing.T) {
	const google = `{
  "error": {
    "code": 400,
    "message": "API key not valid. Please pass a valid API key.",
    "status": "INVALID_ARGUMENT"
  }
}`
	half := strings.Repeat("x", 8<<10-len(secretKey)/2)
	quoted, _ := json.Marshal("the key " + secretKey + " is \u00fcber " + strings.Repeat("y", 9<<10))
	for _, c := range []struct {
		name    string
		status  int
		body    io.Reader
		want    string // the whole error behind "count tokens: "
		atMost  int    // its length where want is only its start
		wrapped error
	}{
		{name: "Google's JSON", status: 400, body: strings.NewReader(google), want: "status 400: API key not valid. Please pass a valid API key."},
		{name: "JSON in one line", status: 429, body: strings.NewReader(`{"error":{"message":"slow down"}}`), want: "status 429: slow down"},
		{name: "JSON of another kind", status: 403, body: strings.NewReader(`{"detail":"no"}`), want: `status 403: {"detail":"no"}`},
		{name: "JSON with an error of another type", status: 403, body: strings.NewReader(`{"error":"no"}`), want: `status 403: {"error":"no"}`},
		{name: "text", status: 500, body: strings.NewReader("\n oops \n"), want: "status 500: oops"},
		{name: "nothing", status: 503, body: strings.NewReader(""), want: "status 503: Service Unavailable"},
		{name: "a status without name", status: 599, body: strings.NewReader(""), want: "status 599: no message"},
		{name: "a good reply with another status", status: 201, body: strings.NewReader(`{"totalTokens":1}`), want: `status 201: {"totalTokens":1}`},
		{name: "no content", status: 204, body: strings.NewReader(""), want: "status 204: No Content"},
		{name: "not modified", status: 304, body: strings.NewReader(""), want: "status 304: Not Modified"},
		{name: "endless", status: 500, body: endless("no "), want: "status 500: no no no", atMost: 8<<10 + 12},
		{name: "endless two-byte characters", status: 500, body: io.MultiReader(strings.NewReader("x"), endless("ü")), want: "status 500: xüü", atMost: 8<<10 + 12},
		{name: "no text", status: 500, body: strings.NewReader("\xff\xfe\x80gone\xff"), want: "status 500: gone"},
		{name: "broken off", status: 502, body: failing("half", io.ErrUnexpectedEOF), want: "status 502: half: read reply: unexpected EOF", wrapped: io.ErrUnexpectedEOF},

		{name: "key in text", status: 400, body: strings.NewReader("bad key " + secretKey + "!"), want: "status 400: bad key ***!"},
		{name: "key in Google's JSON", status: 400, body: strings.NewReader(`{"error":{"message":"bad key ` + secretKey + `"}}`), want: "status 400: bad key ***"},
		{name: "key in JSON of another kind", status: 400, body: strings.NewReader(`{"key":"` + secretKey + `"}`), want: `status 400: {"key":"***"}`},
		{name: "key in JSON that is malformed", status: 400, body: strings.NewReader(`{"error":{"message":"` + secretKey), want: `status 400: {"error":{"message":"***`},
		{name: "key with an escape", status: 400, body: strings.NewReader(`{"error":{"message":"\u0041` + secretKey[1:] + `"}}`), want: `status 400: ***`},
		{name: "key with bytes between", status: 400, body: strings.NewReader(secretKey[:20] + "\xff" + secretKey[20:]), want: `status 400: ***`},
		{name: "key twice", status: 400, body: strings.NewReader(secretKey + secretKey), want: `status 400: ******`},
		{name: "key across the cut", status: 400, body: strings.NewReader(half + secretKey + "rest"), want: "status 400: xxx", atMost: 8<<10 + 12},
		{name: "key across the cut, at its end", status: 400, body: strings.NewReader(half + secretKey), want: "status 400: xxx", atMost: 8<<10 + 12},
		{name: "keys without end", status: 400, body: endless(secretKey + " "), want: "status 400: *** *** ", atMost: 8<<10 + 12},
		{name: "key across the cut behind others", status: 400, body: strings.NewReader(strings.Repeat(secretKey, 100) + strings.Repeat("x", 8<<10-99*len(secretKey)-9) + secretKey), want: "status 400: ***", atMost: 8<<10 + 12},
		{name: "key in a message in JSON", status: 400, body: strings.NewReader(`{"error":{"message":` + string(quoted) + `}}`), want: `status 400: {"error":{"message":"the key *** is über yyy`, atMost: 8<<10 + 12},
		{name: "key broken off", status: 400, body: failing("key "+secretKey[:30], io.ErrUnexpectedEOF), want: "status 400: key : read reply: unexpected EOF"},
		{name: "key in the error of the body", status: 400, body: failing("no", errors.New("reset "+secretKey)), want: "status 400: no: read reply: reset ***"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b *replyBody
			total, err := countOver(func(r *http.Request) (*http.Response, error) {
				response, err := replying(c.status, c.body)(r)
				b = response.Body.(*replyBody)
				return response, err
			})
			wantKeyless(t, err, "count tokens: "+c.want)
			text := strings.TrimPrefix(err.Error(), "count tokens: ")
			if c.atMost == 0 && text != c.want {
				t.Errorf("error %q, want %q", text, c.want)
			}
			if c.atMost != 0 && (len(text) > c.atMost || len(text) < 800) {
				t.Errorf("error of %d bytes, want 800 to %d", len(text), c.atMost)
			}
			if text != strings.ToValidUTF8(text, "") {
				t.Errorf("the error is not UTF-8")
			}
			if c.wrapped != nil && !errors.Is(err, c.wrapped) {
				t.Errorf("error %v does not wrap %v", err, c.wrapped)
			}
			if total != 0 {
				t.Errorf("total %d beside an error", total)
			}
			if !b.closed.Load() {
				t.Error("the body was not closed")
			}
		})
	}
}

// Wherever the cut falls, and whatever stands in front of it, no more than the
// odd character of the key stays.
func TestCountTokensCutsNoKey(t *testing.T) {
	for _, keys := range []int{0, 1, 3, 50, 150} {
		for shift := range 3 * len(secretKey) {
			padding := 8<<10 - keys*len(secretKey) + len(secretKey) - shift
			_, err := countOver(replying(400, strings.NewReader(strings.Repeat(secretKey, keys)+strings.Repeat(".", padding)+secretKey+"tail")))
			text := err.Error()
			if strings.Contains(text, secretKey[:2]) || len(text) > 8<<10+len("count tokens: status 400: ") {
				t.Fatalf("%d keys, shift %d: %d bytes ending in %q", keys, shift, len(text), text[len(text)-60:])
			}
		}
	}
}

func TestCountTokensReply(t *testing.T) {
	const no = "reply has no totalTokens that is an integer of 0 or more"
	const malformed = "reply is not a JSON object"
	filler := func(size int) string {
		const frame = `{"totalTokens":5,"x":""}`
		return frame[:len(frame)-2] + strings.Repeat("x", size-len(frame)) + `"}`
	}
	for _, c := range []struct {
		body string
		want int
		err  string
	}{
		{body: `{"totalTokens":0}`, want: 0},
		{body: `{"totalTokens":12}`, want: 12},
		{body: "\r\n\t {\n  \"totalTokens\": 12 ,\n \"cachedContentTokenCount\": 3\n}\n ", want: 12},
		{body: `{"total\u0054okens":12}`, want: 12},
		{body: fmt.Sprintf(`{"totalTokens":%d}`, math.MaxInt), want: math.MaxInt},
		{body: filler(1 << 20), want: 5},

		{body: filler(1<<20 + 1), err: "reply is larger than 1048576 bytes"},
		{body: `{"totalTokens":9223372036854775808}`, err: no},
		{body: `{"totalTokens":1` + strings.Repeat("0", 5000) + `}`, err: no},
		{body: `{"totalTokens":-1}`, err: no},
		{body: `{"totalTokens":1.0}`, err: no},
		{body: `{"totalTokens":1e3}`, err: no},
		{body: `{"totalTokens":"12"}`, err: no},
		{body: `{"totalTokens":"` + secretKey + `"}`, err: no},
		{body: `{"totalTokens":null}`, err: no},
		{body: `{"totalTokens":true}`, err: no},
		{body: `{"totalTokens":[12]}`, err: no},
		{body: `{"totalTokens":{}}`, err: no},
		{body: `{}`, err: no},
		{body: `null`, err: no},
		{body: `{"totaltokens":12}`, err: no},
		{body: `{"TotalTokens":12}`, err: no},
		{body: `{"reply":{"totalTokens":12}}`, err: no},
		{body: ``, err: malformed},
		{body: `12`, err: malformed},
		{body: `[{"totalTokens":12}]`, err: malformed},
		{body: `"` + secretKey + `"`, err: malformed},
		{body: secretKey, err: malformed},
		{body: `{"totalTokens":12}` + secretKey, err: malformed},
		{body: `{"totalTokens":12} {"totalTokens":13}`, err: malformed},
		{body: `{"totalTokens":12}]`, err: malformed},
		{body: `{"totalTokens":12`, err: malformed},
		{body: `{"totalTokens":+12}`, err: malformed},
		{body: `{"totalTokens":012}`, err: malformed},
		{body: `{"totalTokens":NaN}`, err: malformed},
		{body: `{"totalTokens":0x10}`, err: malformed},
		{body: "\ufeff" + `{"totalTokens":12}`, err: malformed},
		{body: `<html>`, err: malformed},
	} {
		var b *replyBody
		total, err := countOver(func(r *http.Request) (*http.Response, error) {
			response, err := replying(200, strings.NewReader(c.body))(r)
			b = response.Body.(*replyBody)
			return response, err
		})
		if !b.closed.Load() {
			t.Errorf("%.60q: the body was not closed", c.body)
		}
		if c.err != "" {
			if wantKeyless(t, err); err.Error() != "count tokens: "+c.err || total != 0 {
				t.Errorf("%.60q: got %d, %.300q, want %q", c.body, total, err, c.err)
			}
		} else if err != nil || total != c.want {
			t.Errorf("%.60q: got %d, %v, want %d", c.body, total, err, c.want)
		}
	}
}

// An endless reply, or one that unpacks to that, costs no more than its limit.
func TestCountTokensEndlessReply(t *testing.T) {
	read := 0
	_, err := countOver(replying(200, readFunc(func(p []byte) (int, error) {
		read += len(p)
		return len(p), nil
	})))
	wantKeyless(t, err, "reply is larger than 1048576 bytes")
	if read > 2<<20 {
		t.Errorf("read %d bytes", read)
	}

	var bomb bytes.Buffer
	pack, _ := gzip.NewWriterLevel(&bomb, gzip.BestCompression)
	io.Copy(pack, io.LimitReader(endless(" "), 8<<20))
	io.WriteString(pack, `{"totalTokens":1}`)
	pack.Close()
	for _, status := range []int{200, 400} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(status)
			w.Write(bomb.Bytes())
		}))
		defer server.Close()
		_, err := ratelimit.TokenCounter{BaseURL: server.URL}.CountTokens(t.Context(), "m", "x")
		wantKeyless(t, err, map[int]string{200: "reply is larger than", 400: "status 400: Bad Request"}[status])
	}
}

// What a transport says is passed on, without the key.
func TestCountTokensTransportError(t *testing.T) {
	cause := errors.New("no route")
	_, err := countOver(func(*http.Request) (*http.Response, error) { return nil, cause })
	wantKeyless(t, err, "count tokens: ", "gemini-2.5-pro:countTokens", "no route")
	if !errors.Is(err, cause) {
		t.Errorf("error %v does not wrap its cause", err)
	}

	for _, cause := range []error{
		nil, context.Canceled, context.DeadlineExceeded,
	} {
		_, err := countOver(func(r *http.Request) (*http.Response, error) {
			if cause == nil {
				return nil, fmt.Errorf("refused %s of %v", r.Header.Get("x-goog-api-key"), r.Header)
			}
			return nil, fmt.Errorf("refused %s: %w", r.Header.Get("x-goog-api-key"), cause)
		})
		wantKeyless(t, err, "refused ***")
		if cause != nil && !errors.Is(err, cause) {
			t.Errorf("error %v does not match %v", err, cause)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			wantKeyless(t, e)
		}
	}

	_, err = countOver(replying(200, failing(`{"totalTokens":1`, io.ErrUnexpectedEOF)))
	wantKeyless(t, err, "read reply: unexpected EOF")
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v does not wrap its cause", err)
	}
	_, err = countOver(replying(200, failing(`{"totalTokens":1}`, errors.New("reset, key "+secretKey))))
	wantKeyless(t, err, "read reply: reset, key ***")

	// A key with space around it arrives without, and comes back so.
	padded := ratelimit.TokenCounter{APIKey: " " + secretKey + "\t", Client: &http.Client{
		Transport: replying(403, strings.NewReader("bad key "+secretKey+".")),
	}}
	_, err = padded.CountTokens(t.Context(), "m", "x")
	wantKeyless(t, err, "status 403: bad key ***.")

	// Nobody listens there any more.
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err = ratelimit.TokenCounter{BaseURL: gone.URL, APIKey: secretKey}.CountTokens(t.Context(), "m", "x")
	var address *url.Error
	if wantKeyless(t, err); !errors.As(err, &address) {
		t.Errorf("error %v is no *url.Error", err)
	}
}

// A call ends when its context does, wherever it stands then, and says so even
// when net/http or the transport reports something else.
func TestCountTokensEndsWithItsContext(t *testing.T) {
	for _, stage := range []string{"before", "header", "body", "error body"} {
		for _, way := range []string{"cancel", "cancel with cause", "deadline"} {
			t.Run(stage+"/"+way, func(t *testing.T) {
				arrived := make(chan struct{}, 1)
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					switch stage {
					case "body":
						io.WriteString(w, `{"totalTokens":`)
						w.(http.Flusher).Flush()
					case "error body":
						w.WriteHeader(500)
						io.WriteString(w, "the key is "+secretKey[:30])
						w.(http.Flusher).Flush()
					}
					arrived <- struct{}{}
					<-r.Context().Done()
				}))
				defer server.Close()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				want := context.Canceled
				var cause error
				switch way {
				case "cancel with cause":
					cause = errors.New("operator went home with " + secretKey)
				case "deadline":
					want = context.DeadlineExceeded
					until := time.Now().Add(50 * time.Millisecond)
					if stage == "before" {
						until = time.Now()
					}
					var stop func()
					ctx, stop = context.WithDeadline(ctx, until)
					defer stop()
				}
				if way != "deadline" {
					if stage == "before" {
						cancel(cause)
					} else {
						go func() {
							<-arrived
							cancel(cause)
						}()
					}
				}
				counter := ratelimit.TokenCounter{BaseURL: server.URL, APIKey: secretKey}
				total, err := counter.CountTokens(ctx, "m", "x")
				if wantKeyless(t, err); total != 0 || !errors.Is(err, want) {
					t.Errorf("got %d, %v, want %v", total, err, want)
				}
			})
		}
	}

	// A transport that reports the end in its own words.
	ctx, cancel := context.WithCancel(t.Context())
	counter := ratelimit.TokenCounter{Client: &http.Client{
		Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			cancel()
			return nil, errors.New("interrupted")
		}),
	}}
	_, err := counter.CountTokens(ctx, "m", "x")
	if wantKeyless(t, err, "interrupted"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v is not context.Canceled", err)
	}
}

// The text arrives as JSON has it: whole, whatever is in it.
func TestCountTokensSendsTheText(t *testing.T) {
	var got struct {
		Contents []struct {
			Parts []struct{ Text string }
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Contents = nil
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{"totalTokens":1}`)
	}))
	defer server.Close()
	for _, text := range []string{
		"", " ", "\x00\x01\x1f\x7f", "<b>&amp;</b>", `"\/`, "\u2028\u2029", "😀", strings.Repeat("long ", 1<<20),
	} {
		if _, err := (ratelimit.TokenCounter{BaseURL: server.URL}).CountTokens(t.Context(), "m", text); err != nil {
			t.Fatal(err)
		}
		if len(got.Contents) != 1 || len(got.Contents[0].Parts) != 1 || got.Contents[0].Parts[0].Text != text {
			t.Errorf("%.40q arrived as %.80q", text, fmt.Sprint(got))
		}
	}
}

// Many goroutines share a counter.
func TestCountTokensConcurrently(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got struct {
			Contents []struct {
				Parts []struct{ Text string }
			}
		}
		json.NewDecoder(r.Body).Decode(&got)
		fmt.Fprintf(w, `{"totalTokens":%d}`, len(got.Contents[0].Parts[0].Text))
	}))
	defer server.Close()
	counter := ratelimit.TokenCounter{BaseURL: server.URL, APIKey: secretKey, Client: server.Client()}
	t.Run("group", func(t *testing.T) {
		for i := range 20 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range 5 {
					if total, err := counter.CountTokens(t.Context(), "m", strings.Repeat("x", i)); err != nil || total != i {
						t.Errorf("got %d, %v, want %d", total, err, i)
					}
				}
			})
		}
	})
}
