package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A model behind more than MaxBody is not taken for the one that is meant without a model: it is
// read where there is a copy of the body, and else told.
func TestRequestsNameTheirModelLate(t *testing.T) {
	const jsonType = "application/json"
	image := `{"images":[{"image_url":"data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"}],"model":"gpt-image-1"}`
	formBody, formType := form(t, true, 1<<20, "model", "gpt-image-1")
	short, shortType := form(t, true, 10)
	for _, test := range []struct {
		name, body, contentType string
		getBody                 bool
		model                   string // empty for a call that is told
	}{
		{"JSON", image, jsonType, true, "gpt-image-1"},
		{"JSON that cannot be read twice", image, jsonType, false, ""},
		{"a form", formBody, formType, true, "gpt-image-1"},
		{"a form that cannot be read twice", formBody, formType, false, ""},
		{"a form that is cut", formBody[:100_000], formType, true, "dall-e-2"},
		{"JSON without a model", `{"prompt":"a cat"}`, jsonType, false, "dall-e-2"},
		{"a form without a model", short, shortType, false, "dall-e-2"},
		{"no body", "", jsonType, true, "dall-e-2"},
	} {
		for _, deny := range []bool{false, true} {
			t.Run(fmt.Sprint(test.name, ", deny ", deny), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					unknown := ratelimit.UnknownAllow
					if deny {
						unknown = ratelimit.UnknownDeny
					}
					rl := newDenier(t, unknown)
					sent := ""
					tr := &llmhttp.Transport{Limiter: rl.RateLimiter, MaxBody: 64 << 10, Base: base(func(req *http.Request) (*http.Response, error) {
						if req.Body != nil {
							b, _ := io.ReadAll(req.Body)
							sent = string(b)
						}
						return response(req, 200, `{"data":[]}`), nil
					})}
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://llm.test/v1/images/edits", strings.NewReader(test.body))
					if err != nil {
						t.Fatal(err)
					}
					if req.Header.Set("Content-Type", test.contentType); !test.getBody {
						req.GetBody = nil
					}
					resp, err := tr.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					readAll(t, resp)
					refused := deny && test.model == ""
					if (resp.StatusCode == 429) != refused || (sent == test.body) == (refused && test.body != "") {
						t.Errorf("status %d, %d of %d bytes sent", resp.StatusCode, len(sent), len(test.body))
					}
					if test.model != "" {
						told := rl.reported()
						if s := rl.Stats(test.model); s.RPM != 1 || len(told) > 0 {
							t.Errorf("counted %+v, told %v", s, told)
						}
					} else if told := rl.reported(); len(told) != 1 {
						t.Errorf("told %v", told)
					}
				})
			})
		}
	}
}

// The reading of a form that blocks ends with the context.
func TestFormBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
		tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, "{}")}
		r, w := io.Pipe()
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://llm.test/v1/audio/transcriptions", r)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		began := time.Now()
		stop := time.AfterFunc(time.Hour, func() { r.CloseWithError(io.ErrUnexpectedEOF) })
		defer stop.Stop()
		if _, err = tr.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
