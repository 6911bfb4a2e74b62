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

// A body without GetBody is read ahead, and goes out as it came.
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

// A body that fails is not sent as if it were whole, and one that can be sent is.
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
