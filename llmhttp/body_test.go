package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A body without GetBody is read ahead, and sent unchanged.
func TestBodyWithoutGetBody(t *testing.T) {
	for _, size := range []int{0, 10, 100, 5000, 100_000} {
		for _, limit := range []int64{0, 1000} {
			t.Run(fmt.Sprintf("%d of %d", size, limit), func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 1_000_000})
				body := `{"model":"m","messages":[{"content":"` + strings.Repeat("x", size) + `"}]}`
				closed := false
				var charged int
				tr := &llmhttp.Transport{Limiter: rl, MaxBody: limit, Base: base(func(req *http.Request) (*http.Response, error) {
					charged = rl.Stats("m").ITPM
					got, err := io.ReadAll(req.Body)
					if err != nil || string(got) != body {
						t.Errorf("got %d bytes, %v; want %d", len(got), err, len(body))
					}
					if req.ContentLength != -1 {
						t.Errorf("ContentLength is %d now", req.ContentLength)
					}
					req.Body.Close()
					return response(req, 200, `{}`), nil
				})}
				req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, &closer{strings.NewReader(body), &closed})
				req.ContentLength = -1
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				if !closed {
					t.Error("the body was not closed")
				}
				if charged == 0 || charged > len(body)/4+1 {
					t.Errorf("charged %d tokens for %d bytes", charged, len(body))
				}
			})
		}
	}
}

func TestBodyIsClosed(t *testing.T) {
	full := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
	full.RecordUsage("m", 1, 1)
	open := newLimiter(t, ratelimit.ModelQuota{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refuses := base(func(req *http.Request) (*http.Response, error) { req.Body.Close(); return nil, errors.New("no") })
	for _, test := range []struct {
		name string
		tr   *llmhttp.Transport
		ctx  context.Context
		url  string
	}{
		{"refused", &llmhttp.Transport{Limiter: full, MaxWait: time.Millisecond}, t.Context(), chatURL},
		{"refused with an error", &llmhttp.Transport{Limiter: full, MaxWait: time.Millisecond, RefuseWithError: true}, t.Context(), chatURL},
		{"the context ended", &llmhttp.Transport{Limiter: open}, ended, chatURL},
		{"Base fails", &llmhttp.Transport{Limiter: open, Base: refuses}, t.Context(), chatURL},
		{"Base fails, no call to a model", &llmhttp.Transport{Limiter: open, Base: refuses}, t.Context(), "http://llm.test/"},
		{"no limiter", &llmhttp.Transport{}, t.Context(), chatURL},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, getBody := range []bool{true, false} {
				closed := false
				req, _ := http.NewRequestWithContext(test.ctx, "POST", test.url, &closer{strings.NewReader(`{"model":"m"}`), &closed})
				if getBody {
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(`{"model":"m"}`)), nil }
				}
				resp, err := test.tr.RoundTrip(req)
				if err == nil && resp.StatusCode != 429 {
					t.Errorf("answered %d", resp.StatusCode)
				}
				if !closed {
					t.Errorf("the body was not closed (GetBody: %t)", getBody)
				}
			}
		})
	}
}

// A body that fails is not sent as if it were whole. A body whose GetBody fails is sent.
func TestOddRequestBodies(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{})
	sent := ""
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		sent = string(body)
		return response(req, 200, "{}"), nil
	})}
	const text = `{"model":"m"}`
	t.Run("it ends with an error that wraps io.EOF", func(t *testing.T) {
		cut := io.MultiReader(strings.NewReader(text), &failing{fmt.Errorf("connection lost: %w", io.EOF)})
		req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, cut)
		if _, err := tr.RoundTrip(req); err == nil {
			t.Errorf("%q was sent as if it were whole", sent)
		}
	})
	t.Run("GetBody fails", func(t *testing.T) {
		sent = ""
		req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, strings.NewReader(text))
		req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("only once") }
		if _, err := tr.RoundTrip(req); err != nil || sent != text {
			t.Errorf("sent %q, %v", sent, err)
		}
	})
}

// readCounter counts the bytes that are read of a body.
type readCounter struct {
	io.Reader
	read, closed int
}

func (b *readCounter) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += n
	return n, err
}

func (b *readCounter) Close() error { b.closed++; return nil }

// Only a JSON body is read before it is sent. Others stream through.
func TestOnlyJSONIsRead(t *testing.T) {
	const (
		json  = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
		parts = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" + json + "\r\n--b--\r\n"
	)
	type reading int
	const (
		all   reading = iota
		piece         // the piece that shows that it is no JSON
		none
	)
	for _, test := range []struct {
		contentType, body string
		read              reading
	}{
		{"application/json", json, all},
		{"Application/JSON; charset=utf-8", json, all},
		{"application/vnd.api+json", json, all},
		{"text/json", json, all},
		{"", json, all},
		{"", " \r\n\t" + json, all},
		{"", strings.Repeat(" ", 100_000) + json, all},
		{"text/plain;charset=UTF-8", json, all},
		{"application/x-www-form-urlencoded", json, all}, // as curl -d says
		{"", parts, piece},
		{"", "\uFEFF" + json, all},
		{"application/json", "\uFEFF" + json, all},
		{"application/json", "\uFEFE" + json, piece}, // almost a byte order mark
		{"text/html", json, all},
		{"text/html", "<p>" + json, piece},
		{"application/grpc+json", json, none},
		{"", `"a string"`, piece},
		{"text/plain", "some text", piece},
		{"application/x-www-form-urlencoded", "model=m", piece},
		{"application/json", parts, piece},
		{"application/json", "\x1f\x8b\x08\x00", piece}, // compressed
		{"multipart/form-data; boundary=b", parts, none},
		{"multipart/form-data; boundary=b", json, none},
		{"application/octet-stream", json, all},
		{"application/octet-stream", parts, piece},
		{"image/png", json, none},
	} {
		for _, getBody := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q %.10q, GetBody %t", test.contentType, test.body, getBody), func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
				text := test.body
				if test.read != all {
					text += strings.Repeat("x", 100_000)
				}
				body := &readCounter{Reader: strings.NewReader(text)}
				read := body // by the Transport
				var call *llmhttp.Call
				tr := &llmhttp.Transport{Limiter: rl, Model: func(c *llmhttp.Call) string {
					call = c
					return c.Model
				}, Base: base(func(req *http.Request) (*http.Response, error) {
					switch {
					case test.read == all && read.read != len(text), test.read == none && read.read != 0,
						test.read == piece && (read.read == 0 || read.read > 32<<10):
						t.Errorf("%d bytes of %d were read", read.read, len(text))
					}
					if got, err := io.ReadAll(req.Body); err != nil || string(got) != text {
						t.Errorf("sent %d bytes, %v; want %d", len(got), err, len(text))
					}
					req.Body.Close()
					return response(req, 200, "{}"), nil
				})}
				req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, body)
				if test.contentType != "" {
					req.Header.Set("Content-Type", test.contentType)
				}
				if getBody {
					read = new(readCounter)
					req.GetBody = func() (io.ReadCloser, error) {
						read.Reader = strings.NewReader(text)
						return read, nil
					}
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				if body.closed == 0 || getBody && (read.closed > 0) != (read.read > 0) {
					t.Errorf("the body was closed %d times, its copy %d", body.closed, read.closed)
				}
				if counted := rl.Stats("m").RPM == 1; counted != (test.read == all) {
					t.Errorf("counted: %t", counted)
				}
				if size := call.BodySize; call.Partial || (size == -1) != (test.read != all) || size > int64(len(text)) {
					t.Errorf("BodySize %d of %d, Partial %t", size, len(text), call.Partial)
				}
			})
		}
	}
}

// A call whose body is not read is counted if the path names the model. Its body is no text.
func TestUnreadBodyWithModelInPath(t *testing.T) {
	for _, size := range []int{1000, 1 << 20} {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
		charged := 0
		tr := &llmhttp.Transport{Limiter: rl, MaxBody: 100_000, Base: base(func(req *http.Request) (*http.Response, error) {
			charged = rl.Stats("m").ITPM
			return response(req, 200, "{}"), nil
		})}
		const url = "http://llm.test/openai/deployments/m/chat/completions"
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(strings.Repeat("x", size)))
		req.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if s := rl.Stats("m"); s.RPM != 1 || charged != 0 {
			t.Errorf("of %d bytes: %d tokens at first, then %+v", size, charged, s)
		}
	}
}

// A name in a path is bounded without a body, too.
func TestModelNameWithoutBody(t *testing.T) {
	var name string
	tr := &llmhttp.Transport{
		Limiter: newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}}),
		Base:    reply(200, "{}"),
		OnEvent: func(e llmhttp.Event) { name = e.Model },
	}
	url := "http://llm.test/v1beta/models/" + strings.Repeat("x", 10_000) + ":generateContent"
	req, _ := http.NewRequestWithContext(t.Context(), "POST", url, http.NoBody)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if len(name) != 256 {
		t.Errorf("the event names a model with %d bytes", len(name))
	}
}
